//! A perf event, opened with what the kernel allows of what is wanted.

use std::io;
use std::os::fd::OwnedFd;

use crate::attr::{Features, Role, attributes};
use crate::{Config, sys};

/// One event, and the interval it has now.
pub(crate) struct Event {
    pub(crate) fd: OwnedFd,
    /// The kernel's id of it.
    pub(crate) id: u64,
    /// In the clock's unit.
    pub(crate) interval: u64,
}

/// Opens an event, narrowing `features` until the kernel takes it.
pub(crate) fn open(
    config: &Config,
    role: Role,
    interval: u64,
    features: &mut Features,
    task: i32,
    cpu: u32,
) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    loop {
        let error = match sys::open(attributes(config, role, interval, *features), task, cpu) {
            Ok(event) => return Ok(event),
            Err(error) => error,
        };
        match error.raw_os_error() {
            // An older kernel.
            Some(libc::EINVAL | libc::E2BIG) if features.lost => features.lost = false,
            Some(libc::EACCES | libc::EPERM) if !features.user_only && task != -1 => {
                features.user_only = true;
            }
            _ => return Err(error),
        }
    }
}
