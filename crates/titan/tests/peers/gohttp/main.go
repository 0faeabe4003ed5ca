// Gohttp judges a gateway with net/http on both sides: as its upstream it tells what it parsed, as its
// client it checks what comes back.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) >= 3 {
		switch role, where := os.Args[1], os.Args[2]; role {
		case "serve":
			fail(serve(where))
		case "check":
			if !check(where, os.Args[3:], false) {
				os.Exit(1)
			}
			return
		case "check-h2":
			if !check(where, os.Args[3:], true) {
				os.Exit(1)
			}
			return
		}
	}
	fail(fmt.Errorf("usage: gohttp serve ADDRESS | gohttp check[-h2] URL [CASE...]"))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gohttp:", err)
	os.Exit(2)
}
