//! The meaning of instructions, a file per family.

mod arith;
mod bit;
mod control;
mod convert;
pub(crate) mod dispatch;
mod flag;
mod logic;
mod mov;
pub(crate) mod muldiv;
pub(crate) mod shape;
pub(crate) mod shift_rotate;
pub(crate) mod skip;
mod stack;
mod state;
mod string;
pub(crate) mod system;
pub(crate) mod vector;
pub(crate) mod x87;
