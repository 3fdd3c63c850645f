//! Enumerations of why there is nothing to tell: each with the name of its counter, and a meaning.

macro_rules! reasons {
    ($(#[$doc:meta])* $reason:ident: $($name:ident, $key:literal, $meaning:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $reason {
            $(#[doc = concat!("`", $key, "`: ", $meaning, ".")] $name,)*
        }

        impl $reason {
            /// All of them.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// The name of its counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            /// What happened, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

pub(crate) use reasons;
