//! What is shared with the handler: the build makes it of `bpf/shared.h`.
#![expect(dead_code, reason = "not all of what is shared is used on this side")]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
