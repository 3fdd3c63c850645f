# Hashes, sorting, regular expressions and numbers; the loop runs on after the file that is named
# on the command line was opened.
use strict;

sub mix {
    my ($rounds) = @_;
    my %words;
    for my $i (0 .. $rounds) {
        my $word = sprintf("%x", $i * 7919 % 10007);
        $words{$word} .= chr(97 + $i % 26);
    }
    my @ranked = sort { length($words{$b}) <=> length($words{$a}) || $a cmp $b } keys %words;
    my $text = join(" ", map { "$_=$words{$_}" } @ranked);
    my $found = () = $text =~ /([a-f]\d+)=([a-m]+)/g;
    return $found + sqrt($found);
}

mix(300);
open(my $mark, '<', $ARGV[0]);
mix(3000) for 1 .. 5;
