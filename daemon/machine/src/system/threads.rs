//! Threads that work beside the loop, and what they cost.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::unistd::{Pid, gettid};

use crate::system::procfs;

/// Threads whose processor time is wanted. Each notes its id when it begins.
#[derive(Debug, Default)]
pub struct Threads(Arc<Mutex<Vec<Pid>>>);

impl Threads {
    /// Starts another one.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn spawn(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let ids = Arc::clone(&self.0);
        let noted = move || {
            ids.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(gettid());
            work();
        };
        thread::Builder::new().name(name.to_owned()).spawn(noted)
    }

    /// Processor time of them all so far; nothing where the kernel does not tell.
    pub fn cpu_time(&self) -> Duration {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = ids.iter().filter_map(|id| procfs::thread_time(id.as_raw()));
        times.sum()
    }
}
