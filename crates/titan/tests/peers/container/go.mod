module titan.test/container

go 1.24
