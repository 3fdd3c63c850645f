//! The profile database as its users see it: through files.

mod asked;
mod budget;
mod common;
mod conversion;
mod hostile;
mod hotlists;
mod refusal;
mod regions;
mod stacks;
mod views;
mod write_and_read;
