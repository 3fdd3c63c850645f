//! Prepared traces: instructions that windows run through again and again, in a form that runs
//! without fetching them.
//!
//! A window that meets an instruction for the first time fetches it from the host, interprets it by
//! its handler, and prepares it for the next window: the registers' numbers, immediate and
//! displacement in one record of a cache line, behind the record of the instruction before. From
//! then on it runs from there: the next record is mostly the one that follows, or where the branch
//! led last. The handler of an instruction and its prepared form share all arithmetic, and what an
//! instruction loads, stores and tells is the same in the same order.
//!
//! The commonest forms are prepared: integer operations on general registers, memory and
//! immediates, branches, and moves of 16 bytes. Of all others the record says that the handler is
//! to be called.
//!
//! What was prepared holds as long as the host says so: see [`epoch`](crate::Code::epoch) and
//! [`holds`](crate::Code::holds).

mod form;
mod run;
mod store;
mod work;

pub use self::store::Traces;
