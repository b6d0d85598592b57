package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// binaries are where Debian has them.
const binaries = "/usr/lib/postgresql/15/bin"

// ErrMissing means that there is no PostgreSQL on this machine.
var ErrMissing = errors.New("there is no PostgreSQL 15 at " + binaries + ": install it by make postgres-package, as root on Debian")

const (
	role     = "tenantry"
	password = "not-a-secret" // of a server on loopback that ends with its test
	// startTimeout is what the server gets to start or end.
	startTimeout = time.Minute
)

// Server is a running PostgreSQL.
type Server struct {
	dir  string
	port int
	// credential is that of the user it runs as, nil for the one of this process.
	credential *syscall.Credential
	command    *exec.Cmd
	databases  atomic.Int32
}

// Start starts a server. Stop ends it.
func Start(ctx context.Context) (*Server, error) {
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "tenantry-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// prepare makes the files of the server, and looks for a free port.
func (s *Server) prepare(ctx context.Context) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if os.Geteuid() == 0 { // whom PostgreSQL refuses
		own, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("PostgreSQL does not run as root, and its own user is missing: %w", err)
		}
		uid, _ := strconv.ParseUint(own.Uid, 10, 32) // are numbers here
		gid, _ := strconv.ParseUint(own.Gid, 10, 32)
		s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		for _, path := range []string{s.dir, secret} {
			if err := os.Chown(path, int(uid), int(gid)); err != nil {
				return err
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = listener.Addr().(*net.TCPAddr).Port // of tcp
	if err := listener.Close(); err != nil {
		return err
	}
	initdb := s.run(ctx, "initdb", "--pgdata", s.data(), "--username", role, "--pwfile", secret, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initialising PostgreSQL: %w: %s", err, output)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) run(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(binaries, name), args...)
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Pdeathsig: syscall.SIGQUIT}
	return command
}

// Settings are those of the server beside its defaults.
var Settings = []string{"fsync=off", "shared_buffers=256MB", "max_connections=200"}

// Restart starts the server that Stop or Kill has ended.
func (s *Server) Restart(ctx context.Context) error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1"}
	for _, setting := range Settings {
		args = append(args, "-c", setting)
	}
	s.command = s.run(context.WithoutCancel(ctx), "postgres", args...)
	var log bytes.Buffer
	s.command.Stdout, s.command.Stderr = &log, &log
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for db.PingContext(ctx) != nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("waiting for PostgreSQL: %w: %s", ctx.Err(), log.String())
		}
	}
	return nil
}

// Stop ends the server at once, with all connections, and leaves its data.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server as a failure would: what it had not written to its log is lost.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

func (s *Server) end(signal syscall.Signal) {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(signal) // it may have ended
	_ = s.command.Wait()
	s.command = nil
}

// Remove ends the server and removes its data.
func (s *Server) Remove() error {
	s.Stop()
	return os.RemoveAll(s.dir)
}

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", role, password, s.port, database)
}

// Create makes a database, and returns its connection string.
func (s *Server) Create(ctx context.Context) (string, error) {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	name := fmt.Sprintf("search%d", s.databases.Add(1))
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("creating a database: %w", err)
	}
	return s.url(name), nil
}

// Database makes a database for a test, and returns the file with its connection string.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	url, err := s.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "postgres")
	if err := os.WriteFile(file, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Size returns how many bytes a database has, which Create has made.
func (s *Server) Size(ctx context.Context, url string) (int64, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var size int64
	err = db.QueryRowContext(ctx, "SELECT pg_database_size(current_database())").Scan(&size)
	return size, err
}
