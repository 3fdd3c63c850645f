//! Pairs of events: what tells how much the events of a list depend on each other.

/// How often events of one value came together: in one window, and in neighbouring ones.
///
/// With y events of the value in a window, these are the sums over the windows of y (y - 1), and
/// of y times the y of the list's window before. They say what events are worth as draws
/// ([`Draws`](crate::Draws)). Where the value entered the list late, pairs before that are not in
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Ordered pairs of events of one window.
    pub within: u64,
    /// Pairs of an event and one of the window before.
    pub across: u64,
}

impl std::ops::Add for Pairs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            within: self.within.saturating_add(other.within),
            across: self.across.saturating_add(other.across),
        }
    }
}
