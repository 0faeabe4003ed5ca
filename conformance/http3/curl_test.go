package http3

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// curl is another client, on another stack: ngtcp2 and nghttp3.
func TestCurl(t *testing.T) {
	if os.Getenv("HTTP3_CURL") == "" {
		t.Skip("HTTP3_CURL is a curl with HTTP/3, which `make http3` sets")
	}
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			seed, _ := strconv.Atoi(r.URL.Path[1:])
			w.Header().Set("Content-Length", "300000")
			w.Write(noise(uint64(seed), 300_000))
			return
		}
		echo(w, r)
	})
	folder := t.TempDir()
	write(t, filepath.Join(folder, "cert.pem"), peer.cert)
	body := noise(1, 10<<20)
	write(t, filepath.Join(folder, "body"), body)
	curl := func(t *testing.T, told string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(patiently(t), os.Getenv("HTTP3_CURL"), append([]string{"--http3-only", "--silent", "--show-error",
			"--cacert", "cert.pem", "--connect-to", authority + ":443:" + peer.address.String(),
			"--write-out", "%{http_version} %{response_code}\n"}, arguments...)...)
		command.Dir = folder
		command.Stdin = bytes.NewReader(body)
		if output, err := command.CombinedOutput(); err != nil || string(output) != told {
			t.Fatalf("%s, %v", output, err)
		}
	}
	got := func(t *testing.T, file string, want []byte) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err == nil {
			err = same(content, want)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	site := "https://" + authority
	t.Run("GET", func(t *testing.T) {
		curl(t, "3 200\n", "--output", "got", site+"/7")
		got(t, "got", noise(7, 300_000))
	})
	t.Run("HEAD", func(t *testing.T) {
		curl(t, "3 200\n", "--head", "--output", "head", site+"/7")
		head, _ := os.ReadFile(filepath.Join(folder, "head"))
		if !bytes.Contains(head, []byte("\r\ncontent-length: 300000\r\n")) {
			t.Errorf("%s", head)
		}
	})
	t.Run("POST", func(t *testing.T) {
		curl(t, "3 200\n", "--data-binary", "@body", "--output", "posted", site+"/")
		got(t, "posted", body)
	})
	t.Run("PUT without content-length", func(t *testing.T) {
		curl(t, "3 200\n", "--upload-file", "-", "--output", "put", site+"/")
		got(t, "put", body)
	})
	t.Run("50 in parallel", func(t *testing.T) {
		told := bytes.Repeat([]byte("3 200\n"), 50)
		curl(t, string(told), "--parallel", "--parallel-max", "50", "--output", "parallel#1", site+"/[1-50]")
		for i := range 50 {
			got(t, fmt.Sprintf("parallel%d", i+1), noise(uint64(i+1), 300_000))
		}
	})
}
