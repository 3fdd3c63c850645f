//! A patch that is ready: the statement itself, where a variable of it provably has the value.
//!
//! A division divides by what is known there, and its line by one word. That word is compared if
//! debug information says that it is a variable of this function in the register that is divided
//! by, or if it is an argument that the function leaves alone. Whatever is in doubt has no such
//! patch.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::function::{Function, names};
use super::rewritten::{both, calls, divisor, is_calculated, of_call, reads, with_number};
use super::targets::MethodCall;
use super::{
    HintKind, PatchIs, SIZE_OF, is_within_function, qualified, source_name, split_qualified,
};
use crate::code::decode;
use crate::elf::Elf;
use crate::guard::fenced;
use crate::report::hints::Hint;
use crate::report::hints::find::{Division, Opportunity};
use crate::report::hints::fold::{KnownPlace, Results};
use crate::report::hints::machine::{mask, sign_extended, width};
use crate::report::hints::told::place;
use crate::sources::Sources;
use crate::variables::{self, Head, Language, Meant, NumberType, Scope};
use crate::view::View;

/// Lines of a function that are looked at.
const LONGEST: u32 = 2000;
/// Lines in front of a call that are looked through for a name.
const MOST_ABOVE: u32 = 50_000;

/// The lines of the patch, and whether they stand in place of the line as they are; `None` where
/// there is none that provably is right.
pub(in super::super) fn ready(
    view: &View<'_>,
    found: &Opportunity,
    hint: &Hint,
    sources: &mut Sources,
) -> Option<(PatchIs, Vec<String>)> {
    let site = Site::of(view, found, hint, sources)?;
    if !site.function.begins_statement() {
        return None;
    }
    let lines = match hint.kind {
        HintKind::CopySize | HintKind::IndirectTarget => {
            let copied = hint.parameter.strip_prefix(SIZE_OF);
            let function = copied.unwrap_or(&hint.function);
            let value = source_name(&hint.value);
            let lines = of_call(hint.kind, site.language, site.line, function, &value);
            lines.filter(|_| !is_within_function(&value))
        }
        HintKind::Divisor | HintKind::Modulus => site.of_division(found, hint),
        HintKind::SemiInvariantLoad | HintKind::SemiInvariantRegister => site.of_read(found, hint),
        _ => None,
    };
    let lines = lines?;
    Some(match site.missing(hint, sources) {
        Some(missing) => (PatchIs::Pattern, [vec![missing], lines].concat()),
        None => (PatchIs::Ready, lines),
    })
}

/// Where a patch would stand.
struct Site<'v, 'p, 'h> {
    view: &'v View<'p>,
    image: usize,
    /// The instruction that it is about.
    one: Instruction,
    language: Language,
    file: PathBuf,
    number: u32,
    line: &'h str,
    head: Head,
    function: Function,
}

impl<'v, 'p, 'h> Site<'v, 'p, 'h> {
    fn of(
        view: &'v View<'p>,
        found: &Opportunity,
        hint: &'h Hint,
        sources: &mut Sources,
    ) -> Option<Site<'v, 'p, 'h>> {
        let pc = view.profile.pcs.get(found.pc)?;
        let image = pc.image;
        let at = found.division.map_or(pc.address, |of| of.address);
        let place = place(view, image, at);
        let (file, line) = place.file.as_deref().zip(place.line)?;
        let language = Language::of_file(file).or_else(|| view.symbols.language(image, at))?;
        let head = asked(view, image, |elf| variables::head(elf, at))?;
        let looked_at = usize::try_from(line.checked_sub(head.line)?).ok()?;
        let wanted: BTreeSet<u32> = (head.line..head.line.saturating_add(LONGEST)).collect();
        let image_path = Path::new(view.image_path(image));
        let rows = sources.around(file, image_path, &wanted, 2 * wanted.len());
        let lines = rows.iter().find_map(|(first, row)| {
            let skipped = usize::try_from(head.line.checked_sub(*first)?).ok()?;
            row.get(skipped..)
        })?;
        Some(Site {
            view,
            image,
            one: decode(view.symbols.elf(image)?.few_bytes(at)?, at)?,
            language,
            file: file.to_owned(),
            number: line,
            line: hint.source_text.as_deref()?,
            function: Function::new(language, &head.name, lines, looked_at)?,
            head,
        })
    }

    /// What is not known of a direct call, as a comment: whether the objects of a virtual one are
    /// of the class that has the function, and in C and C++ whether the function is declared
    /// before, if none of the file's lines in front of the call names it.
    fn missing(&self, hint: &Hint, sources: &mut Sources) -> Option<String> {
        let is_c = matches!(self.language, Language::C | Language::Cpp);
        if hint.kind != HintKind::IndirectTarget || !is_c {
            return None;
        }
        let value = source_name(&hint.value);
        if self.language == Language::Cpp
            && let Some(method) = MethodCall::of(&value)
        {
            return Some(method.condition_of_type());
        }
        let name = qualified(&value);
        let name = split_qualified(name).map_or(name, |(_, last)| last);
        let wanted: BTreeSet<u32> = (1..self.number.min(MOST_ABOVE)).collect();
        let image = Path::new(self.view.image_path(self.image));
        let rows = sources.around(&self.file, image, &wanted, wanted.len());
        let mut above = rows.iter().map(|(_, lines)| lines.join("\n"));
        let is_named = above.any(|text| names(self.language, &text, name));
        (!is_named).then(|| format!("/* {name} is not declared above: it must be, to be called */"))
    }

    /// The line with a case for what it divides by.
    fn of_division(&self, found: &Opportunity, hint: &Hint) -> Option<Vec<String>> {
        let division = found.division.filter(|of| of.results != Results::Both)?;
        let (at, name) = divisor(self.line, hint.kind)?;
        let meant = self.meant(name)?;
        let (value, bits) = found.bits?;
        let number = self.divided_by(division, value, bits, &meant.number)?;
        let is_proven =
            self.holds(&meant) || !division.is_computed && self.has(found, &meant, name);
        (is_proven && number != 0).then(|| self.written(&meant, at, name, number))?
    }

    /// The line with a case for what it reads.
    fn of_read(&self, found: &Opportunity, hint: &Hint) -> Option<Vec<String>> {
        let name = hint.variable.as_deref()?;
        let meant = self.meant(name)?;
        let (value, bits) = found.bits?;
        let at = *reads(self.line, name)?.first()?;
        let is_here = found.known?.address() == Some(self.one.ip());
        let is_proven = match found.known? {
            KnownPlace::Read(_, register) => meant.register == Some(register.full_register()),
            KnownPlace::After(..) | KnownPlace::InMemory(_) => {
                meant.scope == Scope::Outside && !calls(self.line)
            }
            KnownPlace::AtEntry(..) | KnownPlace::Low(..) => false,
        };
        let is_plain = is_calculated(self.line, at, name) && meant.number.bits <= bits;
        let number = value & mask(meant.number.bits);
        (is_here && is_proven && is_plain).then(|| self.written(&meant, at, name, number))?
    }

    fn meant(&self, name: &str) -> Option<Meant> {
        asked(self.view, self.image, |elf| {
            variables::meant(elf, self.one.ip(), name)
        })
    }

    /// Whether the division divides by the register that a variable is in.
    fn holds(&self, meant: &Meant) -> bool {
        let is_register = self.one.op0_kind() == OpKind::Register;
        is_register && meant.register == Some(self.one.op0_register().full_register())
    }

    /// Whether the value that is divided by is that of a variable: it was seen where the line
    /// divides by it, it is an argument that nothing changes, or it was loaded from the variable.
    fn has(&self, found: &Opportunity, meant: &Meant, name: &str) -> bool {
        let function = found.function.and_then(|id| self.view.symbols.function(id));
        let entry = function.and_then(|function| function.start);
        let is_left = || {
            let is_own = entry.is_some() && self.head.entry == entry;
            let is_argument = found.is_argument && meant.scope == Scope::Head;
            is_argument && is_own && self.function.leaves(name)
        };
        let is_seen = match found.known {
            Some(KnownPlace::Read(at, _)) => at == self.one.ip() && meant.scope != Scope::Outside,
            Some(KnownPlace::After(..) | KnownPlace::InMemory(_)) => {
                meant.scope == Scope::Outside && found.kind != HintKind::SemiInvariantRegister
            }
            _ => false,
        };
        is_left() || is_seen && !calls(self.line)
    }

    /// What a variable of a type is where the division divides by its known number.
    fn divided_by(
        &self,
        division: Division,
        value: u64,
        known: u32,
        of: &NumberType,
    ) -> Option<u64> {
        let own = width(&self.one, 0);
        let is_signed = self.one.mnemonic() == Mnemonic::Idiv;
        let (value, known) = match division.is_computed {
            true => (division.by, division.bits.min(own)),
            false => (value, known.min(own)),
        };
        let value = value & mask(known);
        let is_upper_set = value >> (known - 1) & 1 == 1;
        let is_extended = known == own && is_signed && of.is_signed;
        match () {
            () if of.bits <= known || !is_upper_set => Some(value),
            // Who narrows a signed division knows that the rest is the sign.
            () if is_extended => Some(sign_extended(value, known)),
            () => None,
        }
    }

    /// The line with a case for a variable that has this number.
    fn written(&self, meant: &Meant, at: usize, name: &str, number: u64) -> Option<Vec<String>> {
        let uses = reads(self.line, name)?;
        // What looks like a call may change a variable that it is given.
        let is_alone = uses.len() == 1 || self.language != Language::Cpp && !calls(self.line);
        let is_stream = self.language == Language::Cpp && self.line.contains(">>");
        let literal = meant.number.literal(number, self.language)?;
        let known = with_number(self.line, at, name, &literal.typed)?;
        let condition = format!("{name} == {}", literal.compared);
        let can_be = uses.contains(&at) && is_alone && !is_stream;
        can_be.then(|| both(self.language, self.line, &condition, &known))?
    }
}

/// What an image's own file, or its debug file, says.
fn asked<T>(view: &View<'_>, image: usize, read: impl Fn(&Elf) -> Option<T>) -> Option<T> {
    let files = view.symbols.elf(image).into_iter();
    let mut files = files.chain(view.symbols.debug(image));
    files.find_map(|file| fenced(|| read(file)).flatten())
}
