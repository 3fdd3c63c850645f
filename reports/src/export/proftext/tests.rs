use super::skeleton::InstrumentedBlock;
use super::*;

/// A loop with a call through a pointer, as clang 22 prints it; its branch has a place, but no code
/// of its own, and what was inlined has two places.
const LOOP: &str = r#"; *** IR Dump After PGOInstrumentationGen on [module] ***
@"__profn_a.c;f" = private constant [5 x i8] c"a.c\3Bf"

define internal fastcc i64 @f(ptr noundef %0) unnamed_addr #3 !dbg !1 {
  %2 = load i64, ptr %0, align 8, !dbg !3, !tbaa !9
  br label %3, !dbg !3

3:                                                ; preds = %3, %1
  call void @llvm.instrprof.increment(ptr @"__profn_a.c;f", i64 -3, i32 2, i32 1), !dbg !4
  %4 = phi i64 [ %2, %1 ], [ %9, %3 ], !dbg !4
    #dbg_value(i64 %4, !7, !DIExpression(), !3)
  %5 = ptrtoint ptr %4 to i64
  call void @llvm.instrprof.value.profile(ptr @"__profn_a.c;f", i64 -3, i64 %5, i32 0, i32 0), !dbg !5
  %6 = tail call i64 %4(i64 1), !dbg !5
  switch i64 %6, label %7 [
    i64 0, label %3
  ], !dbg !4

7:                                                ; preds = %3
  call void @llvm.instrprof.increment(ptr @"__profn_a.c;f", i64 -3, i32 2, i32 0), !dbg !4
  ret i64 %6, !dbg !4
}

!1 = distinct !DISubprogram(name: "f", scope: !8, file: !8, line: 7, unit: !0)
!2 = distinct !DISubprogram(name: "inner", linkageName: "_Zin", scope: !8, line: 3, unit: !0)
!3 = !DILocation(line: 8, column: 2, scope: !1)
!4 = !DILocation(line: 9, scope: !6)
!5 = !DILocation(line: 4, column: 5, scope: !2, inlinedAt: !3)
!6 = !DILexicalBlockFile(scope: !1, file: !8, discriminator: 2)
"#;

fn spot(name: &str, line: u32, column: u32) -> Spot {
    Spot {
        name: name.into(),
        line,
        column,
    }
}

/// Blocks have their counters, the places of their code, and those that may be next.
#[test]
fn skeletons() {
    let (functions, broken) = skeleton::functions(LOOP);
    let [function] = functions.as_slice() else {
        panic!("{functions:?}");
    };
    assert_eq!(broken, 0);
    assert_eq!(
        (function.name.as_str(), function.symbol.as_str()),
        ("a.c;f", "f")
    );
    assert_eq!((function.hash, function.counters), (u64::MAX - 2, 2));
    let inlined = vec![spot("_Zin", 4, 5), spot("f", 8, 2)];
    let block = |next: &[usize], counters: &[usize], at: Vec<Vec<Spot>>| InstrumentedBlock {
        next: next.to_vec(),
        counters: counters.to_vec(),
        at,
    };
    let expected = [
        block(&[1], &[], vec![vec![spot("f", 8, 2)]]),
        block(&[2, 1], &[1], vec![inlined.clone()]),
        block(&[], &[0], vec![vec![spot("f", 9, 0)]]),
    ];
    assert_eq!(function.blocks, expected);
    let [site] = function.sites.as_slice() else {
        panic!("{:?}", function.sites);
    };
    assert_eq!((site.kind, site.number, site.block), (0, 0, 1));
    assert_eq!(site.at, inlined);
}

/// A skeleton that is cut off anywhere, or has words of it changed, has fewer functions or broken
/// ones, and ends nothing.
#[test]
fn damaged_skeletons() {
    for end in 0..LOOP.len() {
        let _ = skeleton::functions(LOOP.get(..end).expect("a part"));
    }
    for (from, to) in [
        ("label %3", "label %99"),
        ("i32 2, i32 1", "i32 4000000000, i32 1"),
        ("i32 2, i32 1", "i32 2, i32 7"),
        ("@\"__profn_a.c;f\" = ", "@\"other\" = "),
    ] {
        let (functions, broken) = skeleton::functions(&LOOP.replacen(from, to, 1));
        assert_eq!((functions.len(), broken), (0, 1), "{to}");
    }
    // Places that are inlined in themselves, and scopes around themselves, come to an end.
    let endless = LOOP.replace("inlinedAt: !3", "inlinedAt: !5");
    let endless = endless.replace(
        "!DILexicalBlockFile(scope: !1",
        "!DILexicalBlockFile(scope: !6",
    );
    let (functions, _) = skeleton::functions(&endless);
    let places = functions.iter().flat_map(|one| &one.blocks);
    assert_eq!(places.map(|block| block.at.len()).sum::<usize>(), 1);
}

/// Counters are those of blocks, and values belong to the site's number.
#[test]
fn profiles() {
    let (functions, _) = skeleton::functions(LOOP);
    let places = places(&functions);
    let mut seen = SkeletonCounts {
        ran: vec![None; places.len()],
        ..SkeletonCounts::default()
    };
    let inlined = vec![spot("_Zin", 4, 5), spot("f", 8, 2)];
    let number = |at: &[Spot]| *places.get(at).expect("a place");
    seen.ran[number(&inlined)] = Some(12.0);
    seen.ran[number(&[spot("f", 8, 2)])] = Some(3.0);
    let targets = [("f", 9.0), ("elsewhere", 3.0)];
    let targets = targets.map(|(name, sum)| (name.to_owned(), sum));
    seen.targets.insert(number(&inlined), targets.into());
    let mut tally = Tally::default();
    let text = text(&functions, &places, &seen, &mut tally);
    let expected = "a.c;f\n18446744073709551613\n2\n3000\n12000\n\
                    1\n0\n1\n2\na.c;f:9000\nelsewhere:3000\n\n";
    assert_eq!(text.strip_prefix(":ir\n"), Some(expected));
    assert_eq!((tally.written, tally.targets, tally.unseen), (1, 1, 0));
    assert!((tally.known / tally.all - 15.0 / 18.0).abs() < 0.01);
}

/// Sizes fall into the compiler's ranges: small ones and powers of two are exact.
#[test]
fn buckets() {
    let all = [0, 8, 9, 15, 16, 17, 31, 33, 64, 500, 512, 513, u64::MAX];
    let expected = [0, 8, 9, 9, 16, 17, 17, 33, 64, 257, 512, 513, 513];
    assert_eq!(all.map(bucket), expected);
}
