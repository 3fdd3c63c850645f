//! Plans as people read them.

use std::fmt;

use super::wire::{Operation, Part, Plan, Source, Step};

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REGISTERS: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        match *self {
            Self::BIAS => f.write_str("bias"),
            Self::FS_BASE => f.write_str("fs"),
            Self::GS_BASE => f.write_str("gs"),
            _ => match (REGISTERS.get(self.number()), self.of_step()) {
                (Some(name), _) => f.write_str(name),
                (None, Some(step)) => write!(f, "#{step}"),
                (None, None) => f.write_str("0"),
            },
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_signed() { "s" } else { "u" };
        match self.bytes() {
            8 => Ok(()),
            bytes => write!(f, ":{kind}{}", 8 * u32::from(bytes)),
        }
    }
}

/// `8 bytes at rdi + rcx:s32 * 8 + 0x10`, `sum rdi + 0x8`, or `and rdi, 0xff`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.size, self.operation) {
            (0, Operation::Add) => f.write_str("sum ")?,
            (0, operation) => write!(f, "{} ", format!("{operation:?}").to_lowercase())?,
            (size, _) => write!(f, "{size} bytes at ")?,
        }
        write!(f, "{}{}", self.base, self.base_part)?;
        let (mut plus, mut minus) = (" + ", " - ");
        if self.operation != Operation::Add {
            (plus, minus) = (", ", ", -");
        }
        if self.index != Source::NONE {
            write!(f, "{plus}{}{}", self.index, self.index_part)?;
            if self.scale > 0 {
                write!(f, " * {}", 1_u64 << (self.scale & 63))?;
            }
            (plus, minus) = (" + ", " - ");
        }
        match self.displacement as i64 {
            0 => {}
            negative @ ..0 => write!(f, "{minus}{:#x}", negative.unsigned_abs())?,
            positive => write!(f, "{plus}{positive:#x}")?,
        }
        write!(f, "{}", self.keep)
    }
}

/// One step to a line, each with its number.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps().iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "#{index} {step}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::wire::{Part, Plan, Source, Step};

    /// A plan reads well.
    #[test]
    fn display() {
        let mut load = Step::new(0x10, 4);
        (load.base, load.index, load.scale) = (Source::register(7), Source::register(1), 3);
        (load.index_part, load.keep) = (Part::signed(4), Part::low(4));
        let mut sum = Step::new(8_u64.wrapping_neg(), 0);
        sum.base = Source::step(0);
        assert_eq!(
            Plan::new(&[load, sum]).to_string(),
            "#0 4 bytes at rdi + rcx:s32 * 8 + 0x10:u32\n#1 sum #0 - 0x8"
        );
    }
}
