module titan.test/gohttp

go 1.24
