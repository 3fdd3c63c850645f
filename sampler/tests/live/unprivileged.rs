//! A run without any privilege.

use std::process::{Command, ExitCode};

use libtest_mimic::{Failed, Trial};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use sampler::probe::{self, Scope};
use sampler::{Clock, Config, Mode, Sampler, Target};

use crate::for_clocks;
use crate::programs::{ROLE, Waiting};
use crate::recording::{Recording, millisecond, samples};

/// The user `nobody`, who owns nothing and may do nothing.
const NOBODY: u32 = 65_534;

pub(crate) fn trials() -> Vec<Trial> {
    for_clocks(
        "a_user_without_privilege_samples_an_own_command",
        Scope::Own,
        test,
    )
    .into()
}

/// A user without privilege gets samples of user code, is told that the kernel is left out,
/// gets rings as large as may be locked, and is refused the whole machine with what would mend it.
fn test(clock: Clock) -> Result<(), Failed> {
    let clock = match clock {
        Clock::CpuClock => "cpu-clock",
        Clock::Timer => "timer",
        Clock::Cycles => "cycles",
    };
    let binary = std::env::current_exe()?;
    let output = Command::new(binary)
        .args([ROLE, "unprivileged", clock])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(said.into_owned().into())
    }
}

/// What the child does, as nobody.
pub(crate) fn role(clock: Option<&str>) -> ExitCode {
    let clock = if clock == Some("cycles") {
        Clock::Cycles
    } else {
        Clock::CpuClock
    };
    match become_nobody().and_then(|()| sample(clock)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.message().unwrap_or("no message"));
            ExitCode::FAILURE
        }
    }
}

fn become_nobody() -> Result<(), Failed> {
    // Whoever is not root has nothing to give up.
    if Uid::effective().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        setgroups(&[])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    Ok(())
}

fn sample(clock: Clock) -> Result<(), Failed> {
    let paranoid = probe::perf_event_paranoid().ok_or("no perf_event_paranoid")?;
    let mut child = Waiting::shell(
        "/bin/sh -c 'while read line; do :; done; i=0; while :; do i=$((i+1)); done'",
    )?;
    // More pages than anybody may lock without privilege, unless everything is allowed.
    setrlimit(Resource::RLIMIT_MEMLOCK, 0, 0)?;
    let config = Config {
        ring_pages: 1 << 14,
        ..Config::new(Target::Command(child.pid()), clock, millisecond(clock))
    };
    let mut recording = Recording::with(&config)?;
    let setup = recording.running().setup().clone();
    child.go()?;
    child.close_input();
    recording.samples(50, |_| true)?;
    let (batches, _) = recording.stop()?;
    child.kill()?;
    if setup.user_only != (paranoid >= 2) {
        return Err(format!("{setup:?} with perf_event_paranoid {paranoid}").into());
    }
    if paranoid >= 0 && setup.ring_pages >= config.ring_pages {
        return Err(format!("rings beyond the locked memory: {setup:?}").into());
    }
    if setup.user_only
        && let Some(sample) = samples(&batches).find(|sample| sample.mode != Mode::User)
    {
        return Err(format!("not of user code: {sample:?}").into());
    }
    if paranoid >= 1 {
        let config = Config::new(Target::System, clock, 1_000_000);
        match Sampler::open(&config) {
            Err(sampler::Error::Refused(refusal)) if refusal.mend.contains("CAP_PERFMON") => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("the whole machine was granted".into()),
        }
    }
    Ok(())
}
