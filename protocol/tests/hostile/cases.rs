//! What fuzzing enters by: takes any bytes for what the other side sent, and panics if it finds a
//! promise broken. The fuzzer's target includes this file.

use std::fmt::Debug;

use protocol::{Decoder, Error, Hello, MAX_REPLY, MAX_REQUEST, Reply, Request, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Feeds the bytes to decoders of each kind of message, in parts of a length that the first byte
/// chooses.
pub(crate) fn decode(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let part = usize::from(*first).max(1);
    stream::<Hello>(bytes, part, MAX_REQUEST);
    stream::<Request>(bytes, part, MAX_REQUEST);
    stream::<Reply>(bytes, part, MAX_REPLY);
}

/// Whatever is decoded can be encoded, and is the same when it is decoded again; how the bytes
/// were cut makes no difference.
fn stream<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    bytes: &[u8],
    part: usize,
    most: usize,
) {
    let mut whole = Decoder::new(most);
    whole.push(bytes);
    let mut expected: Vec<T> = Vec::new();
    let error = loop {
        match whole.take() {
            Ok(Some(message)) => expected.push(message),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    if let Some(Error::TooLong { length, most }) = error {
        assert!(length > most);
    }

    let mut decoder = Decoder::new(most);
    let mut found: Vec<T> = Vec::new();
    let mut ended = None;
    for part in bytes.chunks(part) {
        decoder.push(part);
        while ended.is_none() {
            match decoder.take() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(error) => ended = Some(error),
            }
        }
    }
    assert_eq!((&found, ended), (&expected, error));

    for message in found {
        let frame = encode(&message, usize::MAX).expect("messages can be encoded");
        let mut again = Decoder::new(frame.len());
        again.push(&frame);
        assert_eq!(again.take(), Ok(Some(message)));
        assert!(again.is_empty());
    }
}
