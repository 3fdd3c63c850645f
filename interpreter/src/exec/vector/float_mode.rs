//! The modes of floating-point instructions, as far as they are known.

use std::cell::Cell;

use crate::exec::state::is_masked;

/// How results are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// Rounds to the nearest, ties to even.
    Nearest,
    /// Towards negative infinity.
    Down,
    /// Towards positive infinity.
    Up,
    /// Towards zero.
    Zero,
}

impl Rounding {
    /// All roundings, by their numbers in control fields.
    pub(super) const ALL: [Self; 4] = [Self::Nearest, Self::Down, Self::Up, Self::Zero];

    /// The one that the low two bits of a control field name.
    pub(super) fn of(control: u32) -> Self {
        Self::ALL[control as usize & 3]
    }
}

/// What is known of the modes in MXCSR.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatMode<'a> {
    /// How results are rounded, if known.
    rounding: Option<Rounding>,
    /// Subnormal numbers are known to be numbers like others.
    gradual: bool,
    /// An operation that raises an exception sets this, where a program can have asked for it.
    raised: Option<&'a Cell<bool>>,
}

impl<'a> FloatMode<'a> {
    /// Flush-to-zero, denormals-are-zero.
    const FLUSH: u32 = 1 << 15 | 1 << 6;

    /// The modes in a value of MXCSR. What an operation raises is noted in `raised`. If MXCSR is
    /// known, and has all exceptions masked, none is; if it has not, whatever works with it may
    /// raise one.
    pub(super) fn of(mxcsr: Option<u32>, raised: &'a Cell<bool>) -> Self {
        let masked = mxcsr.map(is_masked);
        if masked == Some(false) {
            raised.set(true);
        }
        Self {
            rounding: mxcsr.map(|bits| Rounding::of(bits >> 13)),
            gradual: is_gradual(mxcsr),
            raised: masked.is_none().then_some(raised),
        }
    }

    /// Nothing is known, and nothing noted.
    pub(super) const fn unknown() -> Self {
        Self {
            rounding: None,
            gradual: false,
            raised: None,
        }
    }

    /// The mode with all exceptions suppressed.
    pub(super) fn suppressed(self) -> Self {
        Self {
            raised: None,
            ..self
        }
    }

    /// The mode with the usual bits, whatever they are: what is raised is mostly the same.
    pub(super) const fn assumed(self) -> Self {
        Self {
            rounding: Some(Rounding::Nearest),
            gradual: true,
            ..self
        }
    }

    /// Notes an exception other than that of an inexact result.
    pub(super) fn raise(self, raised: bool) {
        if let Some(cell) = self.raised.filter(|_| raised) {
            cell.set(true);
        }
    }

    /// The mode with a known rounding.
    pub(super) fn rounded(self, rounding: Rounding) -> Self {
        Self {
            rounding: Some(rounding),
            ..self
        }
    }

    /// How results are rounded, if known.
    pub(super) fn rounding(self) -> Option<Rounding> {
        self.rounding
    }

    /// Whether subnormal numbers are known to be numbers like others.
    pub(super) fn is_gradual(self) -> bool {
        self.gradual
    }

    /// Whether results are known to be rounded to the nearest.
    pub(super) fn is_nearest(self) -> bool {
        self.rounding == Some(Rounding::Nearest)
    }

    /// Whether arithmetic is what this program's own is.
    pub(super) fn is_default(self) -> bool {
        self.is_nearest() && self.gradual
    }
}

/// Whether subnormal numbers are known to be numbers like others.
pub(super) fn is_gradual(mxcsr: Option<u32>) -> bool {
    mxcsr.is_some_and(|bits| bits & FloatMode::FLUSH == 0)
}
