//! The forms that an answer can have, one file each, registered with one line each.
//!
//! A renderer takes any answer apart, as a value that serde knows or as a page. It knows no report.

mod json;
pub(crate) mod text;

use clap::ValueEnum;

use crate::failure::Failure;
use crate::model::{Model, Shape};
use crate::names::Names;

/// A form of answers.
pub(crate) trait Renderer: Sync {
    /// The answer in this form.
    ///
    /// # Errors
    /// If the form cannot hold the answer.
    fn render(&self, model: &dyn Model, names: Names) -> Result<String, Failure>;

    /// What stands in place of an answer where there is none, for programs.
    fn nothing(&self, _shape: Shape) -> Option<&'static str> {
        None
    }
}

/// Makes the option `--format` of the renderers.
macro_rules! renderers {
    ($($(#[$doc:meta])* $name:ident: $renderer:path,)*) => {
        /// Form of the output.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub(crate) enum Format {
            $($(#[$doc])* $name,)*
        }

        impl Format {
            /// What puts answers into this form.
            pub(crate) fn renderer(self) -> &'static dyn Renderer {
                match self {
                    $(Format::$name => &$renderer,)*
                }
            }
        }
    };
}

renderers! {
    /// Tables to read.
    Text: text::Text,
    /// JSON to process.
    Json: json::Json,
}
