//! Which functions a name on the command line means.

use std::collections::BTreeSet;

use super::View;
use crate::failure::Failure;
use crate::names::{short, without_parameters};
use crate::symbols::{Function, FunctionId, STUB};

impl View<'_> {
    /// Functions by name (with `stubs`, PLT stubs by that of their target): exactly, else
    /// `image+0xoffset` or `name+0xoffset`, else by a part that is in one name only.
    pub(super) fn select(&self, name: &str, stubs: bool) -> Result<BTreeSet<FunctionId>, Failure> {
        let in_images = |function: &Function| {
            self.images
                .as_ref()
                .is_none_or(|images| images.contains(&function.image))
        };
        let matching = |test: &dyn Fn(&Function) -> bool| -> BTreeSet<FunctionId> {
            let functions = self.symbols.functions().iter().enumerate();
            functions
                .filter(|(_, function)| in_images(function) && test(function))
                .map(|(id, _)| id)
                .collect()
        };
        let is_called = |function: &Function, name: &str| {
            let stub = function.name.strip_suffix(STUB).filter(|_| stubs);
            let whole = stub.unwrap_or(&function.name);
            // As it is, as programmers say it, and as the reports show it.
            [whole, &function.name].contains(&name)
                || without_parameters(whole) == name
                || short(whole) == name
        };
        let exact = matching(&|function| is_called(function, name));
        if !exact.is_empty() {
            return Ok(exact);
        }
        if let Some((image, address)) = name.rsplit_once("+0x")
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            let around = matching(&|function| {
                let row = self.profile.images.get(function.image);
                let short = self.symbols.short_name(function.image);
                (short == image || row.is_some_and(|row| row.path == image))
                    && function.start.is_some_and(|start| start <= address)
                    && function.end.is_none_or(|end| address < end)
            });
            if !around.is_empty() {
                return Ok(around);
            }
            // An instruction as the reports show it: its function, and how far it is in it.
            let (whole, offset) = (image, address);
            let holding = matching(&|function| {
                let length = function.start.zip(function.end).map(|(from, to)| to - from);
                is_called(function, whole) && length.is_none_or(|length| offset < length)
            });
            if !holding.is_empty() {
                return Ok(holding);
            }
        }
        let parts = matching(&|function| function.name.contains(name));
        let names: BTreeSet<&str> = parts
            .iter()
            .filter_map(|id| self.symbols.function(*id))
            .map(|function| function.name.as_str())
            .collect();
        match names.len() {
            0 => Err(Failure::Nothing(format!(
                "no function {name:?} in this profile"
            ))),
            1 => Ok(parts),
            number => {
                let mut text = format!("{name:?} is part of {number} names:");
                for name in names.iter().take(20) {
                    text.push_str("\n  ");
                    text.push_str(name);
                }
                if number > 20 {
                    text.push_str(&format!("\n  and {} more", number - 20));
                }
                Err(Failure::Nothing(text))
            }
        }
    }
}
