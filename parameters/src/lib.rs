//! What a recorded value is a value of: the kinds that a recording is asked for, and the parameter
//! of each list of values.
//!
//! - [`ValueKinds`] is what `--capture` takes. The table in `kinds.rs` has the name and the meaning
//!   of each kind; the command line's help and its errors follow from it.
//! - [`Parameter`] is what one list is about. It has the name that databases and reports show, is
//!   read back from that name, and knows the width of its values and what number they are.
//! - [`Locality`] says where a load is, as seen from the last one of its instruction.
//!
//! The crate knows neither machine state nor operating system. The interpreter makes events of
//! these, the collector keeps them, and the reports read them back.

mod kinds;
mod locality;
mod parameter;

pub use kinds::{UnknownKind, ValueKinds};
pub use locality::Locality;
pub use parameter::{Number, Parameter, UnknownParameter};
