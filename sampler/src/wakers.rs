//! Wakers: a real-time thread for each CPU that is woken up by the handler and sleeps again at
//! once.
//!
//! That it takes the place of a sampled thread has the kernel save the thread's registers, and that
//! it returns to user mode has the kernel load them again: `bpf/vectors.h` says what for. So a
//! waker must not do its work within the kernel.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use libbpf_rs::{MapHandle, RingBufferBuilder};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::bpf::Wakes;
use crate::stop_request::StopRequest;
use crate::{cpus, sys};

/// What the end is waited for by, and what a wake-up.
const STOP: u64 = 1;
const WAKE: u64 = 0;

/// Starts the wakers of these CPUs, which end when they are told to. Those that cannot be had are
/// left out.
///
/// # Errors
/// Why the last one cannot be had, if there is none at all.
pub(crate) fn start(wakes: &Wakes, cpus: &[u32], stop: &Arc<StopRequest>) -> Result<(), String> {
    let (mut started, mut refused) = (0, "there is no processor".to_owned());
    for &cpu in cpus {
        let (sender, receiver) = sync_channel(1);
        let (ring, stop) = (wakes.ring(cpu), Arc::clone(stop));
        let spawned = ring.and_then(|ring| {
            let run = move || {
                if let Err(why) = run(cpu, &ring, &stop, &sender) {
                    // The starter waits for either.
                    let _ = sender.send(Err(why));
                }
            };
            let builder = thread::Builder::new().name(format!("waker/{cpu}"));
            builder
                .spawn(run)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        let tid = spawned.and_then(|()| receiver.recv().map_err(|error| error.to_string())?);
        match tid.and_then(|tid| wakes.enlist(cpu, tid)) {
            Ok(()) => started += 1,
            Err(why) => {
                tracing::debug!(cpu, why, "a CPU has no waker");
                refused = why;
            }
        }
    }
    if started > 0 { Ok(()) } else { Err(refused) }
}

/// Moves to its CPU, says its thread, and sleeps until the end.
fn run(
    cpu: u32,
    ring: &MapHandle,
    stop: &StopRequest,
    ready: &SyncSender<Result<u32, String>>,
) -> Result<(), String> {
    let said = |what: &'static str| move |error: nix::Error| format!("{what}: {error}");
    cpus::stay_on(cpu).map_err(said("a thread cannot be kept on a processor"))?;
    sys::become_real_time()
        .map_err(|error| format!("a thread cannot have real-time priority: {error}"))?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(said("no epoll"))?;
    let watch = |number| EpollEvent::new(EpollFlags::EPOLLIN, number);
    epoll
        .add(stop.wake.as_fd(), watch(STOP))
        .map_err(said("an event cannot be watched"))?;
    epoll
        .add(ring.as_fd(), watch(WAKE))
        .map_err(said("a ring cannot be watched"))?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(ring, |_| 0)
        .map_err(|error| format!("a ring cannot be read: {error}"))?;
    let reader = builder
        .build()
        .map_err(|error| format!("a ring cannot be read: {error}"))?;
    let tid = nix::unistd::gettid().as_raw().cast_unsigned();
    if ready.send(Ok(tid)).is_err() {
        return Ok(());
    }
    let mut events = [EpollEvent::empty(); 2];
    while !stop.is_made() {
        // An error is that of a signal's interruption.
        let _ = epoll.wait(&mut events, EpollTimeout::NONE);
        if let Err(error) = reader.consume() {
            tracing::debug!(cpu, %error, "a waker's ring cannot be read");
            break;
        }
    }
    Ok(())
}
