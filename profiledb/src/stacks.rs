//! Why a call stack has no more frames than it has.

macro_rules! ends {
    ($($name:ident, $number:literal, $key:literal, $meaning:literal;)*) => {
        /// Why a call stack has no more frames. Its number is in files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum StackEnd {
            $(#[doc = concat!($meaning, ".")] $name = $number,)*
        }

        impl StackEnd {
            /// Every end, in the order of the numbers.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// A word for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            /// What it means, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

ends! {
    Whole, 0, "whole", "The last frame is the outermost one";
    Depth, 1, "depth", "There are as many frames as were asked for";
    NoRules, 2, "no-rules",
        "The code of the last frame has no unwind rules, or none that can be followed";
    UnknownRegister, 3, "unknown-register",
        "The unwind rules need a register that is not known there";
    Unreadable, 4, "unreadable", "The stack could not be read";
    NoCall, 5, "no-call", "No call stands before the return address, or its code is not known";
    Kernel, 6, "kernel", "The kernel was interrupted, whose callers nobody looks for";
    Hidden, 7, "hidden", "The next frame is in the kernel, which the reader may not see";
    Rare, 8, "rare", "The path was too rare for a roll-up to keep its outer frames";
}

impl StackEnd {
    /// Its number in files.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The end with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the stack has all its frames.
    pub fn is_whole(self) -> bool {
        self == Self::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::StackEnd;

    /// The numbers in files are those of the table.
    #[test]
    fn numbers() {
        for end in StackEnd::ALL {
            assert_eq!(StackEnd::of(end.number()), Some(end));
        }
        assert_eq!(StackEnd::of(StackEnd::ALL.len() as u8), None);
    }
}
