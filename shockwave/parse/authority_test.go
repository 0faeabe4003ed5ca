package parse

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// The addresses are those that net/netip takes, without a zone.
func TestIPv6LikeNetip(t *testing.T) {
	pieces := strings.Split("::|:|1|ffff|0|12345|g|1.2.3.4|256.1.1.1|01.2.3.4|1.2.3|.|%|1:|:2|2:3:4:5:6:7|1:2:3:4:5:6", "|")
	random := rand.New(rand.NewPCG(9, 10))
	for range 50000 {
		var text string
		for range random.IntN(7) {
			text += pieces[random.IntN(len(pieces))]
			if random.IntN(2) == 0 {
				text += ":"
			}
		}
		address, err := netip.ParseAddr(text)
		want := err == nil && address.Is6() && address.Zone() == ""
		if got := isIPv6([]byte(text)); got != want {
			t.Fatalf("%q: %v", text, got)
		}
	}
}

// A plain host is one of letters, digits, hyphens and dots, wherever in it another byte stands.
func TestPlainHosts(t *testing.T) {
	const before = "GET / HTTP/1.1\r\nHost: "
	for size := range 40 {
		for c := range 256 {
			if classes[c]&valueByte == 0 {
				continue
			}
			for at := range max(size, 1) {
				host := []byte(strings.Repeat("a", size))
				if size > 0 {
					host[at] = byte(c)
				}
				b := append([]byte(before), host...)
				isPlain := size > 0 && strings.Contains("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", string(rune(c)))
				if got := isPlainHost(textOf(b), uint(len(before)), uint(len(b))); got != isPlain {
					t.Fatalf("%q: %v", host, got)
				}
			}
		}
	}
}
