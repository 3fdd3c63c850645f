//! What each user has taken, and what was counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use counters::Counter;

/// What one user has.
#[derive(Debug)]
struct User {
    connections: usize,
    /// Requests that may still be made, as of `at`.
    requests: f64,
    at: Instant,
}

/// All users that have something, or had a short time ago.
#[derive(Debug)]
pub(super) struct Users {
    users: HashMap<u32, User>,
    per_minute: f64,
}

/// Users remembered beyond those that are connected.
const REMEMBERED: usize = 1024;

impl Users {
    pub(super) fn new(requests_per_minute: u32) -> Users {
        Users {
            users: HashMap::new(),
            per_minute: f64::from(requests_per_minute.max(1)),
        }
    }

    /// How many connections a user has.
    pub(super) fn connections(&self, uid: u32) -> usize {
        self.users.get(&uid).map_or(0, |user| user.connections)
    }

    /// The user with the most connections, and how many these are.
    pub(super) fn busiest(&self) -> Option<(u32, usize)> {
        let of = |(uid, user): (&u32, &User)| (*uid, user.connections);
        self.users.iter().map(of).max_by_key(|(_, count)| *count)
    }

    pub(super) fn connected(&mut self, uid: u32, now: Instant) {
        let per_minute = self.per_minute;
        self.forget(now);
        let user = self.users.entry(uid).or_insert(User {
            connections: 0,
            requests: per_minute,
            at: now,
        });
        user.connections += 1;
    }

    pub(super) fn disconnected(&mut self, uid: u32) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.connections = user.connections.saturating_sub(1);
        }
    }

    /// Whether a user may make a request now; counts it if so. A minute's worth may be made at
    /// once, and comes back evenly.
    pub(super) fn may_ask(&mut self, uid: u32, now: Instant) -> bool {
        let per_minute = self.per_minute;
        let Some(user) = self.users.get_mut(&uid) else {
            return false;
        };
        let minutes = now.saturating_duration_since(user.at).as_secs_f64() / 60.0;
        user.requests = (user.requests + minutes * per_minute).min(per_minute);
        user.at = now;
        let may = user.requests >= 1.0;
        if may {
            user.requests -= 1.0;
        }
        may
    }

    /// Forgets who has nothing and whose requests have all come back.
    fn forget(&mut self, now: Instant) {
        if self.users.len() > REMEMBERED {
            let minute = Duration::from_secs(60);
            self.users.retain(|_, user| {
                user.connections > 0 || now.saturating_duration_since(user.at) < minute
            });
        }
    }
}

/// Defines where readers are counted.
macro_rules! counters {
    ($($name:ident: $counter:ident,)*) => {
        /// What readers did.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(#[doc = concat!("[`Counter::", stringify!($counter), "`]")] pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            /// All of them, which begin again at 0.
            pub(super) fn take(&self) -> Vec<(Counter, u64)> {
                vec![$((Counter::$counter, self.$name.swap(0, Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    connections: Connections,
    views: Views,
    view_bytes: ViewBytes,
    controls: Controls,
    refused_malformed: RefusedMalformed,
    refused_version: RefusedVersion,
    refused_forbidden: RefusedForbidden,
    refused_busy: RefusedBusy,
    refused_too_large: RefusedTooLarge,
    refused_too_slow: RefusedTooSlow,
    refused_failed: RefusedFailed,
    hung_up: HungUp,
    accepts_failed: AcceptsFailed,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute's requests may be made at once; then as many as time has passed for.
    #[test]
    fn requests_come_back() {
        let start = Instant::now();
        let mut users = Users::new(60);
        users.connected(5, start);
        let made = (0..100).filter(|_| users.may_ask(5, start)).count();
        assert_eq!(made, 60);
        let later = start + Duration::from_millis(3500);
        assert_eq!((0..100).filter(|_| users.may_ask(5, later)).count(), 3);
        let much_later = start + Duration::from_secs(3600);
        let made = (0..100).filter(|_| users.may_ask(5, much_later)).count();
        assert_eq!(made, 60);
    }

    /// What one has used up another still has, and who is not connected asks nothing.
    #[test]
    fn users_are_apart() {
        let now = Instant::now();
        let mut users = Users::new(1);
        users.connected(1, now);
        users.connected(2, now);
        assert!(users.may_ask(1, now) && !users.may_ask(1, now));
        assert!(users.may_ask(2, now));
        assert!(!users.may_ask(3, now));
        users.connected(2, now);
        assert_eq!(users.busiest(), Some((2, 2)));
        users.disconnected(2);
        users.disconnected(2);
        assert_eq!(users.connections(2), 0);
    }

    /// However many users come and go, only so many are remembered.
    #[test]
    fn bounded() {
        let start = Instant::now();
        let mut users = Users::new(1);
        for uid in 0..10_000 {
            let now = start + Duration::from_secs(u64::from(uid));
            users.connected(uid, now);
            users.disconnected(uid);
            assert!(users.users.len() <= REMEMBERED + 1);
        }
    }
}
