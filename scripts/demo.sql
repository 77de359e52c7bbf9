-- What `make demo` has SQLite do: rows with an index in memory, then questions about them.
create table item(id integer primary key, kind integer, price integer, name text);
insert into item select value, value * 7919 % 997, value * 104729 % 10007, 'item ' || value
    from generate_series(1, 4000);
create index by_kind on item(kind, price);
select count(*), sum(price) from item where kind between 100 and 200;
select a.kind, count(*) from item a join item b on b.kind = a.kind + 1 and b.price < a.price
    group by a.kind order by 2 desc limit 3;
