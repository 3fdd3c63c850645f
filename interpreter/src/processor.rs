//! Which instructions a processor has.
//!
//! An instruction that it does not have raises an exception, and so does one that the kernel keeps
//! from programs. Some do something else instead: `lzcnt` is `bsr` on processors without it.
//! Programs try instructions, and go on elsewhere. So a window ends before an instruction that the
//! processor does not say it has.

use std::collections::HashSet;
use std::sync::Arc;

use iced_x86::{CpuidFeature, Instruction};

/// What a processor has, by the kernel's names for it.
#[derive(Clone, Debug, Default)]
pub struct Processor {
    /// `None`: whatever the decoder knows.
    names: Option<Arc<HashSet<String>>>,
}

impl Processor {
    /// A processor that has every instruction.
    pub const fn with_everything() -> Self {
        Self { names: None }
    }

    /// From the kernel's list of flags (`/proc/cpuinfo`), which lacks what the kernel has turned
    /// off.
    pub fn with_flags(flags: &str) -> Self {
        let names = flags.split_whitespace().map(str::to_owned).collect();
        Self {
            names: Some(Arc::new(names)),
        }
    }

    /// What an instruction needs and this processor does not say that it has, if anything.
    pub fn lacks(&self, instruction: &Instruction) -> Option<CpuidFeature> {
        let names = self.names.as_ref()?;
        let needed = instruction.cpuid_features().iter().copied();
        needed.into_iter().find(|feature| match need(*feature) {
            Need::Nothing => false,
            Need::Named(name) => !names.contains(name),
            Need::Unknown => true,
        })
    }
}

/// What an instruction of some feature needs.
enum Need {
    /// Every processor with 64 bits has it, or takes it for no operation.
    Nothing,
    /// A flag.
    Named(&'static str),
    /// No flag says that a program may use it.
    Unknown,
}

/// By the kernel's names. Tiles (AMX) are there for programs that have asked for them, which no
/// flag tells.
fn need(feature: CpuidFeature) -> Need {
    use CpuidFeature as F;
    let name = match feature {
        F::INTEL8086
        | F::INTEL186
        | F::INTEL286
        | F::INTEL386
        | F::INTEL486
        | F::X64
        | F::FPU
        | F::FPU287
        | F::FPU387
        | F::CPUID
        | F::TSC
        | F::MSR
        | F::SYSCALL
        | F::CMOV
        | F::CX8
        | F::MMX
        | F::SSE
        | F::SSE2
        | F::FXSR
        | F::CLFSH
        | F::MULTIBYTENOP
        | F::PAUSE
        | F::SMAP
        | F::CET_IBT
        | F::CET_SS
        | F::CLDEMOTE
        | F::PREFETCHITI
        | F::PREFETCHWT1 => return Need::Nothing,
        F::ADX => "adx",
        F::AES => "aes",
        F::AVX => "avx",
        F::AVX2 => "avx2",
        F::AVX512_BF16 => "avx512_bf16",
        F::AVX512_BITALG => "avx512_bitalg",
        F::AVX512_FP16 => "avx512_fp16",
        F::AVX512_IFMA => "avx512ifma",
        F::AVX512_VBMI => "avx512vbmi",
        F::AVX512_VBMI2 => "avx512_vbmi2",
        F::AVX512_VNNI => "avx512_vnni",
        F::AVX512_VP2INTERSECT => "avx512_vp2intersect",
        F::AVX512_VPOPCNTDQ => "avx512_vpopcntdq",
        F::AVX512BW => "avx512bw",
        F::AVX512CD => "avx512cd",
        F::AVX512DQ => "avx512dq",
        F::AVX512F => "avx512f",
        F::AVX512VL => "avx512vl",
        F::AVX_IFMA => "avx_ifma",
        F::AVX_NE_CONVERT => "avx_ne_convert",
        F::AVX_VNNI => "avx_vnni",
        F::AVX_VNNI_INT8 => "avx_vnni_int8",
        F::AVX_VNNI_INT16 => "avx_vnni_int16",
        F::BMI1 => "bmi1",
        F::BMI2 => "bmi2",
        F::CLFLUSHOPT => "clflushopt",
        F::CLWB => "clwb",
        F::CLZERO => "clzero",
        F::CMPCCXADD => "cmpccxadd",
        F::CMPXCHG16B => "cx16",
        F::D3NOW => "3dnow",
        F::D3NOWEXT => "3dnowext",
        F::F16C => "f16c",
        F::FMA => "fma",
        F::FMA4 => "fma4",
        F::FSGSBASE => "fsgsbase",
        F::GFNI => "gfni",
        F::HLE_or_RTM | F::RTM => "rtm",
        F::INVPCID => "invpcid",
        F::LZCNT => "abm",
        F::MOVBE => "movbe",
        F::MOVDIR64B => "movdir64b",
        F::MOVDIRI => "movdiri",
        F::PCLMULQDQ => "pclmulqdq",
        F::PKU => "ospke",
        F::POPCNT => "popcnt",
        F::PREFETCHW => "3dnowprefetch",
        F::PTWRITE => "ptwrite",
        F::RDPID => "rdpid",
        F::RDPRU => "rdpru",
        F::RDRAND => "rdrand",
        F::RDSEED => "rdseed",
        F::RDTSCP => "rdtscp",
        F::SERIALIZE => "serialize",
        F::SHA => "sha_ni",
        F::SHA512 => "sha512",
        F::SM3 => "sm3",
        F::SM4 => "sm4",
        F::SSE3 => "pni",
        F::SSE4A => "sse4a",
        F::SSE4_1 => "sse4_1",
        F::SSE4_2 => "sse4_2",
        F::SSSE3 => "ssse3",
        F::TBM => "tbm",
        F::VAES => "vaes",
        F::VPCLMULQDQ => "vpclmulqdq",
        F::WAITPKG => "waitpkg",
        F::XOP => "xop",
        F::XSAVE => "xsave",
        F::XSAVEC => "xsavec",
        F::XSAVEOPT => "xsaveopt",
        _ => return Need::Unknown,
    };
    Need::Named(name)
}

#[cfg(test)]
mod tests {
    use iced_x86::{CpuidFeature, Decoder, DecoderOptions};

    use super::Processor;

    fn lacks(processor: &Processor, code: &[u8]) -> Option<CpuidFeature> {
        processor.lacks(&Decoder::new(64, code, DecoderOptions::NONE).decode())
    }

    /// What all processors have needs no flag; of what an instruction needs, everything must be
    /// there; what no flag tells of is not there.
    #[test]
    fn what_is_there() {
        let old = Processor::with_flags("sse sse2 lm avx512f");
        // mov rax, rdi; addsd xmm0, xmm1; endbr64; rdsspq rax; prefetchw [rdi]
        assert_eq!(lacks(&old, &[0x48, 0x89, 0xf8]), None);
        assert_eq!(lacks(&old, &[0xf2, 0x0f, 0x58, 0xc1]), None);
        assert_eq!(lacks(&old, &[0xf3, 0x0f, 0x1e, 0xfa]), None);
        assert_eq!(lacks(&old, &[0xf3, 0x48, 0x0f, 0x1e, 0xc8]), None);
        assert_eq!(
            lacks(&old, &[0x0f, 0x0d, 0x0f]),
            Some(CpuidFeature::PREFETCHW)
        );
        // lzcnt eax, edi; vpaddd ymm0, ymm1, ymm2; vpaddd zmm0, zmm1, zmm2; of ymm, with VL
        assert_eq!(
            lacks(&old, &[0xf3, 0x0f, 0xbd, 0xc7]),
            Some(CpuidFeature::LZCNT)
        );
        assert_eq!(
            lacks(&old, &[0xc5, 0xf5, 0xfe, 0xc2]),
            Some(CpuidFeature::AVX2)
        );
        assert_eq!(lacks(&old, &[0x62, 0xf1, 0x75, 0x48, 0xfe, 0xc2]), None);
        assert_eq!(
            lacks(&old, &[0x62, 0xf1, 0x75, 0x28, 0xfe, 0xc2]),
            Some(CpuidFeature::AVX512VL)
        );
        // tilezero tmm0, though the processor says that it has tiles
        let new = Processor::with_flags("amx_tile amx_int8");
        assert!(lacks(&new, &[0xc4, 0xe2, 0x7b, 0x49, 0xc0]).is_some());
        assert!(
            lacks(
                &Processor::with_everything(),
                &[0xc4, 0xe2, 0x7b, 0x49, 0xc0]
            )
            .is_none()
        );
    }
}
