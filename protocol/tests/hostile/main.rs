//! The decoder against bytes that are no messages, or only nearly.

mod cases;

use proptest::prelude::*;
use protocol::{
    Answer, Control, Decoder, Error, Hello, Kinds, MAX_REQUEST, Range, Refusal, Reply, Request,
    Selection, encode,
};
use serde_bytes::ByteBuf;

fn selection() -> Selection {
    Selection {
        since: Some(-1),
        until: Some(i64::MAX),
        epochs: vec![1, i64::MIN],
        pids: vec![42],
        uids: vec![0, u32::MAX],
        images: vec![
            "'; DROP TABLE cycles; --".to_owned(),
            "../../etc".to_owned(),
        ],
        ranges: vec![Range {
            image: "libc.so.6".to_owned(),
            start: 0,
            end: u64::MAX,
        }],
        kinds: Kinds::default(),
    }
}

/// The messages of both sides.
fn frames() -> Vec<Vec<u8>> {
    let requests = [
        Request::View(Selection::default()),
        Request::View(selection()),
        Request::Control(Control::Reload),
    ];
    let replies = [
        Reply::Refused {
            refusal: Refusal::Version(7),
            message: "no".to_owned(),
        },
        Reply::View {
            bytes: 1 << 40,
            notes: vec!["a".to_owned(), String::new()],
        },
        Reply::Chunk(ByteBuf::from(vec![7; 1000])),
        Reply::End { digest: [9; 32] },
        Reply::Control(Ok(Answer::default())),
        Reply::Control(Err("why".to_owned())),
    ];
    let mut frames = vec![encode(&Hello::default(), 100).expect("fits")];
    frames.extend(requests.map(|request| encode(&request, MAX_REQUEST).expect("fits")));
    frames.extend(replies.map(|reply| encode(&reply, 1 << 20).expect("fits")));
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Bytes of no meaning at all.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        cases::decode(&bytes);
    }

    /// A frame that says its length truly, and a body of no meaning.
    #[test]
    fn any_body(part in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![part];
        bytes.extend(u32::try_from(body.len()).expect("is short").to_le_bytes());
        bytes.extend(body);
        cases::decode(&bytes);
    }

    /// True messages, one after the other, in which some bytes were changed, or cut off.
    #[test]
    fn nearly_messages(
        part in any::<u8>(),
        order in prop::collection::vec(0..10_usize, 1..5),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let frames = frames();
        let mut bytes = vec![part];
        bytes.extend(order.into_iter().flat_map(|index| frames[index].clone()));
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        cases::decode(&bytes[..=end.index(bytes.len())]);
    }
}

/// A length beyond the allowed is refused as soon as it is there, before anything behind it.
#[test]
fn lengths() {
    for length in [101_u32, 1 << 20, u32::MAX] {
        let mut decoder = Decoder::new(100);
        decoder.push(&length.to_le_bytes());
        let expected = Error::TooLong {
            length: length as usize,
            most: 100,
        };
        assert_eq!(decoder.take::<Request>(), Err(expected));
    }
    let long = Request::View(Selection {
        images: vec!["x".repeat(MAX_REQUEST)],
        ..Selection::default()
    });
    assert!(matches!(
        encode(&long, MAX_REQUEST),
        Err(Error::TooLong { .. })
    ));
}

/// A body that goes on behind its message is none, and neither is one that ends before it.
#[test]
fn bodies_end_with_their_message() {
    let frame = encode(&Request::Control(Control::Flush), 100).expect("fits");
    let (_, body) = frame.split_at(4);
    for body in [&[body, &[0]].concat()[..], &body[..1], &[]] {
        let mut decoder = Decoder::new(100);
        decoder.push(&u32::try_from(body.len()).expect("is short").to_le_bytes());
        decoder.push(body);
        assert_eq!(decoder.take::<Request>(), Err(Error::Malformed));
    }
}

/// A vector that claims to have more elements than there are bytes takes no memory for them.
#[test]
fn claims_of_size() {
    // View, no times, and 2^63 epochs.
    let body = [
        0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ];
    let mut decoder = Decoder::new(100);
    decoder.push(&u32::try_from(body.len()).expect("is short").to_le_bytes());
    decoder.push(&body);
    assert_eq!(decoder.take::<Request>(), Err(Error::Malformed));
}

/// The greeting is what it was in every version: four letters and a number.
#[test]
fn greeting() {
    let frame = encode(&Hello::default(), 100).expect("fits");
    let version = u8::try_from(protocol::VERSION).expect("a small number");
    assert_eq!(frame, [5, 0, 0, 0, b'v', b'c', b'p', b'i', version]);
}
