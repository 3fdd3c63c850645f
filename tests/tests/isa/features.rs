//! Which instructions this processor has.

use std::collections::HashSet;

use anyhow::{Context as _, Result};
use iced_x86::{Code, CpuidFeature, Instruction, Mnemonic, OpKind};

/// Why an instruction is not to be run, though the interpreter goes on at it: it is the kernel's,
/// or it changes what the runner itself stands on (segments, access rights of memory).
pub(crate) fn unfit(instruction: &Instruction) -> Option<&'static str> {
    use Mnemonic as M;
    let loads_segment = instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_segment_register()
        && matches!(instruction.mnemonic(), M::Mov | M::Pop);
    let info = instruction.code().op_code();
    if instruction.is_privileged() || info.must_be_cpl0() {
        return Some("privileged");
    }
    let ground = matches!(
        instruction.mnemonic(),
        M::Wrfsbase | M::Wrgsbase | M::Xrstor | M::Xrstor64
    );
    (loads_segment || ground).then_some("it changes what the runner stands on")
}

/// The processor's features by the kernel's names.
pub(crate) struct Features(HashSet<String>);

impl Features {
    pub(crate) fn of_this_processor() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
        let flags = text
            .lines()
            .find_map(|line| line.strip_prefix("flags"))
            .and_then(|rest| rest.split_once(':'))
            .context("/proc/cpuinfo has no flags")?
            .1;
        Ok(Self(flags.split_whitespace().map(str::to_owned).collect()))
    }

    /// Whether it has a feature, by the kernel's name.
    pub(crate) fn named(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// What an instruction needs and this processor lacks, if anything.
    pub(crate) fn missing(&self, code: Code) -> Option<CpuidFeature> {
        code.cpuid_features()
            .iter()
            .copied()
            .find(|feature| !self.has(*feature))
    }

    fn has(&self, feature: CpuidFeature) -> bool {
        use CpuidFeature as F;
        let name = match feature {
            // In every processor with 64 bits, or no operation where it means nothing.
            F::INTEL8086
            | F::INTEL186
            | F::INTEL286
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::FPU
            | F::FPU287
            | F::FPU387
            | F::MULTIBYTENOP
            | F::PAUSE
            | F::CET_IBT
            | F::CET_SS
            | F::PREFETCHITI
            | F::PREFETCHWT1 => return true,
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
            F::CLDEMOTE => "cldemote",
            F::CLZERO => "clzero",
            F::RDPRU => "rdpru",
            F::WAITPKG => "waitpkg",
            F::PTWRITE => "ptwrite",
            F::CMPCCXADD => "cmpccxadd",
            F::CLFLUSHOPT => "clflushopt",
            F::CLFSH => "clflush",
            F::CLWB => "clwb",
            F::CMOV => "cmov",
            F::CMPXCHG16B => "cx16",
            F::CX8 => "cx8",
            F::F16C => "f16c",
            F::FMA => "fma",
            F::GFNI => "gfni",
            F::HLE_or_RTM | F::RTM => "rtm",
            F::LZCNT => "abm",
            F::MMX => "mmx",
            F::MOVBE => "movbe",
            F::MOVDIRI => "movdiri",
            F::MOVDIR64B => "movdir64b",
            F::PCLMULQDQ => "pclmulqdq",
            F::POPCNT => "popcnt",
            F::PREFETCHW => "3dnowprefetch",
            F::SERIALIZE => "serialize",
            F::SHA => "sha_ni",
            F::SHA512 => "sha512",
            F::SM3 => "sm3",
            F::SM4 => "sm4",
            F::SSE => "sse",
            F::SSE2 => "sse2",
            F::SSE3 => "pni",
            F::SSSE3 => "ssse3",
            F::SSE4_1 => "sse4_1",
            F::SSE4_2 => "sse4_2",
            F::SSE4A => "sse4a",
            F::VAES => "vaes",
            F::VPCLMULQDQ => "vpclmulqdq",
            F::FMA4 => "fma4",
            F::XOP => "xop",
            F::TBM => "tbm",
            F::CPUID => return true,
            F::TSC => "tsc",
            F::RDTSCP => "rdtscp",
            F::RDPID => "rdpid",
            F::RDRAND => "rdrand",
            F::RDSEED => "rdseed",
            F::PKU => "ospke",
            F::FXSR => "fxsr",
            F::FSGSBASE => "fsgsbase",
            F::XSAVE => "xsave",
            F::XSAVEC => "xsavec",
            F::XSAVEOPT => "xsaveopt",
            F::D3NOW => "3dnow",
            F::D3NOWEXT => "3dnowext",
            _ => return false,
        };
        self.named(name)
    }
}
