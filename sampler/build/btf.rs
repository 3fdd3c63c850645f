//! Reads the types that clang describes in an object for the BPF machine: BTF, the kernel's format
//! for debug information (`linux/btf.h`).

/// An object's types, by their numbers; number 0 is `void`.
pub(crate) struct Btf(Vec<Type>);

/// A type, as far as what is shared has such.
pub(crate) enum Type {
    /// An integer of so many bytes.
    Integer { bytes: u32, signed: bool },
    /// So many of another type.
    Array { of: u32, len: u32 },
    /// A structure of so many bytes.
    Structure {
        name: String,
        bytes: u32,
        fields: Vec<Field>,
    },
    /// An enumeration: names and numbers.
    Enumeration {
        name: String,
        members: Vec<(String, i32)>,
    },
    /// Another name of a type, or a qualified one.
    Same(u32),
    /// Anything else.
    Other,
}

/// A field of a structure: its offset in bits.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) of: u32,
    pub(crate) bits: u32,
}

impl Btf {
    /// The types of an object.
    pub(crate) fn read(object: &[u8]) -> Result<Btf, String> {
        let bytes = section(object, ".BTF").ok_or("the object has no section .BTF")?;
        parse(bytes).ok_or_else(|| "the section .BTF cannot be read".to_owned())
    }

    /// The type of a number, without other names and qualifiers.
    pub(crate) fn get(&self, mut number: u32) -> &Type {
        // Each names another one, and there is no circle of names alone in C.
        for _ in 0..self.0.len() {
            match self.0.get(number as usize) {
                Some(Type::Same(of)) => number = *of,
                Some(found) => return found,
                None => break,
            }
        }
        &Type::Other
    }

    /// The fields of a structure.
    pub(crate) fn fields_of(&self, wanted: &str) -> Result<&[Field], String> {
        let fields = self.0.iter().find_map(|one| match one {
            Type::Structure { name, fields, .. } if name == wanted => Some(fields.as_slice()),
            _ => None,
        });
        fields.ok_or_else(|| format!("there is no struct {wanted}"))
    }
}

/// A section of an ELF file of 64 bits.
pub(crate) fn section<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(take(object, at)?)));
    let word = |at: usize| usize::try_from(u64::from_le_bytes(take(object, at)?)).ok();
    let (headers, each, count, names) = (word(40)?, half(58)?, half(60)?, half(62)?);
    let contents = |number: usize| {
        let header = headers + number * each;
        let (start, len) = (word(header + 24)?, word(header + 32)?);
        object.get(start..start.checked_add(len)?)
    };
    let names = contents(names)?;
    (0..count).find_map(|number| {
        let at = u32::from_le_bytes(take(object, headers + number * each)?);
        (text(names, at)? == name).then(|| contents(number))?
    })
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The text of a table that begins at this byte, and ends with a zero.
fn text(table: &[u8], at: u32) -> Option<&str> {
    let bytes = table.get(at as usize..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

/// Words one after the other.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn skip(&mut self, words: usize) -> Option<()> {
        self.0 = self.0.get(4 * words..)?;
        Some(())
    }
}

fn parse(bytes: &[u8]) -> Option<Btf> {
    let word = |at: usize| Some(u32::from_le_bytes(take(bytes, at)?) as usize);
    let head = word(4)?;
    let part = |at: usize| {
        let start = head + word(at)?;
        bytes.get(start..start + word(at + 4)?)
    };
    let (types, texts) = (part(8)?, part(16)?);
    let name = |at: u32| Some(text(texts, at)?.to_owned());
    let mut words = Words(types);
    let mut found = vec![Type::Other];
    while !words.0.is_empty() {
        let (at, info, of) = (words.next()?, words.next()?, words.next()?);
        let count = (info & 0xffff) as usize;
        found.push(match info >> 24 & 31 {
            // An integer: in its word the encoding, of which the lowest bit is the sign.
            1 => Type::Integer {
                bytes: of,
                signed: words.next()? >> 24 & 1 != 0 && name(at)? != "char",
            },
            3 => {
                let (of, _index, len) = (words.next()?, words.next()?, words.next()?);
                Type::Array { of, len }
            }
            4 => Type::Structure {
                name: name(at)?,
                bytes: of,
                fields: (0..count)
                    .map(|_| {
                        Some(Field {
                            name: name(words.next()?)?,
                            of: words.next()?,
                            bits: words.next()?,
                        })
                    })
                    .collect::<Option<_>>()?,
            },
            6 => Type::Enumeration {
                name: name(at)?,
                members: (0..count)
                    .map(|_| Some((name(words.next()?)?, words.next()?.cast_signed())))
                    .collect::<Option<_>>()?,
            },
            // Another name, or a qualifier.
            8..=11 | 18 => Type::Same(of),
            // Pointers, forward declarations, functions, floating point.
            2 | 7 | 12 | 16 => Type::Other,
            // Variables and tags.
            14 | 17 => words.skip(1).map(|()| Type::Other)?,
            13 => words.skip(2 * count).map(|()| Type::Other)?,
            // Unions, sections, enumerations of 64 bits.
            5 | 15 | 19 => words.skip(3 * count).map(|()| Type::Other)?,
            _ => return None,
        });
    }
    Some(Btf(found))
}
