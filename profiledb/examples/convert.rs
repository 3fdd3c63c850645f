//! tmp
fn main() {
    let args: Vec<_> = std::env::args().collect();
    let t = std::time::Instant::now();
    profiledb::convert(args[1].as_ref(), args[2].as_ref()).unwrap();
    println!("{:?}", t.elapsed());
}
