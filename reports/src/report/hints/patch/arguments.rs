//! Names of all arguments in the pattern for a whole function whose argument was seen where it is
//! read.

use super::{HintKind, Told, patch};
use crate::convention::PLATFORM;
use crate::report::hints::Hint;
use crate::report::hints::find::Opportunity;
use crate::report::hints::fold::{KnownPlace, Results};
use crate::variables::Language;
use crate::view::View;

/// The pattern with the names that the function declares; `None` where they are not known, or the
/// register that was read is not that of the argument.
pub(in super::super) fn with_names(
    view: &View<'_>,
    found: &Opportunity,
    hint: &Hint,
) -> Option<Vec<String>> {
    let gives_both = found.division.is_some_and(|of| of.results == Results::Both);
    let is_of_function = gives_both || found.kind == HintKind::ConstantArgument;
    let KnownPlace::Read(_, register) = found.known? else {
        return None;
    };
    let function = view.symbols.function(found.function?)?;
    let (image, entry) = (function.image, function.start?);
    let number = PLATFORM
        .iter()
        .position(|of| *of == register.full_register())?;
    let declared = view.symbols.parameters(image, &[entry].into());
    let declared = declared.get(&entry)?;
    let parameter = declared.integer(u8::try_from(number).ok()?)?;
    let is_it = parameter.name.is_some() && parameter.name == hint.variable;
    let language = view.symbols.language(image, entry)?;
    let can_be = matches!(language, Language::C | Language::Cpp | Language::Rust);
    let told = Told {
        function: &hint.function,
        variable: hint.variable.as_deref(),
        value: &hint.value,
        typed: &hint.value,
        gives_both,
        is_argument: true,
        arguments: &declared.names()?,
        ..Told::default()
    };
    (is_of_function && found.is_argument && is_it && can_be)
        .then(|| patch(found.kind, language, &told))
}
