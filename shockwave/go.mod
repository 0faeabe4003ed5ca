module titan.test/shockwave

go 1.26
