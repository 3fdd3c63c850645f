//! Instructions, family by family, against exact models and tables of edge cases.

mod arith;
mod bit;
mod control;
#[path = "../common/edges.rs"]
#[expect(dead_code, reason = "these tests need integers alone")]
mod edges;
mod exceptions;
mod forms;
mod kinds;
mod knowledge;
mod lab;
mod memory;
mod mov;
mod muldiv;
mod shift_rotate;
mod sparse;
mod string;
mod system;
#[path = "../common/traced.rs"]
mod traced;
mod vector;
mod window;
mod x87;
