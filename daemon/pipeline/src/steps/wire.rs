//! What the collector and the process that steps say to each other: lengths, and what is encoded.

use std::io::{self, ErrorKind, Read, Write};

use sampler::{Pid, Tid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message: some states of 3 KiB each.
const LONGEST: u32 = 1 << 16;

/// A thread that is to be stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) pid: Pid,
    pub(super) tid: Tid,
}

/// Sends a message.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).ok();
    let len = len.filter(|len| *len <= LONGEST);
    let len = len.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
    to.write_all(&len.to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Receives one; `None` where the other end was closed behind the last.
pub(super) fn read<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<M>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    // It fits: it is small.
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent is what is received; what is cut off, too long or no message is an error.
    #[test]
    fn messages() {
        let ask = Ask {
            pid: Pid(7),
            tid: Tid(8),
        };
        let mut sent = Vec::new();
        write(&mut sent, &ask).expect("it is sent");
        write(&mut sent, &ask).expect("it is sent");
        let mut rest = sent.as_slice();
        assert_eq!(read(&mut rest).expect("it comes"), Some(ask));
        assert_eq!(read(&mut rest).expect("it comes"), Some(ask));
        assert_eq!(read::<Ask>(&mut rest).expect("it ends"), None);
        assert!(read::<Ask>(&mut &sent[..5]).is_err());
        assert!(read::<Ask>(&mut [0xff; 8].as_slice()).is_err());
        assert!(read::<Ask>(&mut [1, 0, 0, 0, 0xff].as_slice()).is_err());
        assert!(write(&mut sent, &vec![0_u8; 1 << 17]).is_err());
    }
}
