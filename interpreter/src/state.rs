//! What a window works on.

use crate::event::Events;
use crate::overlay::Overlay;
use crate::registers::Registers;

/// What a window works on. To be kept from one window to the next: to make it costs as much as
/// half a window.
#[derive(Clone)]
pub struct WindowState {
    /// The registers: before a window those that it starts from, after it what is known of those at
    /// its end. `rip` is then the next instruction, or the one that ended the window. If that one
    /// was begun (it faults, or its direction or target is unknown) registers and flags may be
    /// those in the midst of it.
    pub registers: Registers,
    pub(crate) overlay: Overlay,
    pub(crate) events: Events,
}

impl WindowState {
    /// The state that a window from these registers starts in.
    pub fn new(registers: Registers) -> Self {
        Self {
            registers,
            overlay: Overlay::new(),
            events: Events::new(),
        }
    }
}
