//! What the programs of this folder are asked and answer: the build makes it of `cases.h`.
#![expect(dead_code, reason = "not all of what is shared is used on this side")]

include!(concat!(env!("OUT_DIR"), "/handler.rs"));
