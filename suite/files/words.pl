# Counts words, pairs of words and endings of a text; prints the most frequent ones.
use strict;
use warnings;
my (%count, %pair, %ending, $last);
while (my $line = <>) {
    $line =~ s/([bdg])([aeiou])/$2$1/g;
    for my $word (split /[\s.]+/, $line) {
        next if $word eq '';
        $count{$word}++;
        $pair{"$last $word"}++ if defined $last;
        $ending{$1}++ if $word =~ /([aeiou][^aeiou]*)$/;
        $last = $word;
    }
}
for my $h (\%count, \%pair, \%ending) {
    my @sorted = sort { $h->{$b} <=> $h->{$a} || $a cmp $b } keys %$h;
    print scalar(@sorted), ": ", join(', ', map { "$_ $h->{$_}" } @sorted[0 .. 4]), "\n";
}
