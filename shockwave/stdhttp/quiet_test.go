package stdhttp

import (
	"io"
	"log"
	"log/slog"
)

// quiet is for servers whose handlers fail on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
