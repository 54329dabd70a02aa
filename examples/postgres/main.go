// Command postgres fills a table of PostgreSQL from MQTT topics, each message at
// least once.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aibridge/aibridge/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, os.Args[1:], log); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// Settings are the flags.
type settings struct {
	bridge  string
	keyFile string
	session string
	filters string
	table   string
	batch   int
}

func parse(args []string) (s settings, err error) {
	f := flag.NewFlagSet("postgres", flag.ContinueOnError)
	f.StringVar(&s.bridge, "bridge", cmp.Or(os.Getenv("AIBRIDGE_URL"), "mqtt://127.0.0.1:1883"), "address of the bridge, or AIBRIDGE_URL")
	f.StringVar(&s.keyFile, "api-key-file", "", "file with an API key; otherwise AIBRIDGE_API_KEY has the key")
	f.StringVar(&s.session, "session", "postgres", "MQTT client id whose session the bridge keeps")
	f.StringVar(&s.filters, "filter", "", "topic filters, with commas between them")
	f.StringVar(&s.table, "table", "messages", "table, which is made if there is none; also SCHEMA.TABLE")
	f.IntVar(&s.batch, "batch", 500, "messages at most in a transaction")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.filters == "" || f.NArg() > 0 {
		return s, errors.New("give --filter, such as --filter 'plant/#', and nothing but flags")
	}
	return s, nil
}

// run takes messages until ctx ends. Where PostgreSQL is, DATABASE_URL says, or
// the variables that psql reads, PGHOST and so on.
func run(ctx context.Context, args []string, log *slog.Logger) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	options, err := s.credential()
	if err != nil {
		return err
	}
	// A connection is made when it is needed, so that PostgreSQL may come later.
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	into, err := newTable(pool, s.table)
	if err != nil {
		return err
	}
	log.Info("taking messages", "bridge", s.bridge, "filter", s.filters, "table", s.table)
	return client.Consume(ctx, s.bridge, client.Consumer{
		Session: s.session, Filters: strings.Split(s.filters, ","), Batch: s.batch, Handle: into.insert,
	}, append(options, client.WithLogger(log))...)
}

// credential is the credential that the bridge is shown.
func (s settings) credential() ([]client.Option, error) {
	key := os.Getenv("AIBRIDGE_API_KEY")
	if s.keyFile != "" {
		read, err := os.ReadFile(s.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--api-key-file: %w", err)
		}
		if key = strings.TrimSpace(string(read)); key == "" {
			return nil, errors.New("--api-key-file: the file is empty")
		}
	}
	if key == "" {
		return nil, nil
	}
	return []client.Option{client.WithAPIKey(key)}, nil
}
