package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/tenantry/tenantry/internal/atomicfile"
	"github.com/tenantry/tenantry/internal/process/signal"
)

const (
	// forget is after how long without use a file is removed.
	forget = 7 * 24 * time.Hour
	// lockPoll is how often to look whether another process has logged in.
	lockPoll = 20 * time.Millisecond
	// Cost of trying a password on the name of a file: 30 ms.
	digestMemory, digestPasses = 19 << 10, 2
)

// key returns the name under which the token of a login is kept: who logs in where and how, for
// what, and with which secret. A password can be guessed, so it is hashed as passwords are. One
// that is asked for has no part in it, nor has a passcode, which is another each time.
func (l *login) key() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %#v", l.url, l.method, l.options)
	for _, name := range secrets[l.method] {
		if secret := l.get(name); secret != "" && name != "passcode" {
			hash.Write(argon2.IDKey([]byte(secret), hash.Sum(nil), digestPasses, digestMemory, 1, sha256.Size))
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// record is what is kept of a login: a token, or the error of the last attempt.
type record struct {
	token
	// Given is when somebody got the token, and Verified when Keystone said that it is good.
	Given    time.Time `json:"given,omitzero"`
	Verified time.Time `json:"verified,omitzero"`

	Failed  time.Time `json:"failed,omitzero"`
	Failure string    `json:"failure,omitempty"`
	// Refused says that Keystone said no, rather than nothing.
	Refused bool `json:"refused,omitempty"`
}

// locked is the record of one login, which no other process reads or writes meanwhile.
type locked struct {
	path string
	lock *os.File
}

// open locks the record of a login.
func open(ctx context.Context, directory, key string) (*locked, error) {
	if err := private(directory); err != nil {
		return nil, err
	}
	path := filepath.Join(directory, key)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(directory, err)
	}
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &locked{path: path + ".json", lock: lock}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = lock.Close()
			return nil, unusable(directory, fmt.Errorf("locking %s: %w", lock.Name(), err))
		}
		if err := signal.Pause(ctx, lockPoll); err != nil {
			_ = lock.Close()
			if errors.Is(err, context.Canceled) {
				return nil, err
			}
			return nil, fmt.Errorf("another process logs in with the same credential and does not end: it holds %s", lock.Name())
		}
	}
}

// private makes a directory that nobody else can read or write.
func private(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return unusable(directory, err)
	}
	info, err := os.Stat(directory)
	if err != nil {
		return unusable(directory, err)
	}
	owner, mode := info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm()
	if int(owner) != os.Geteuid() || mode&0o077 != 0 {
		return fmt.Errorf("tokens cannot be kept in %s, which is not yours alone (owner %d, mode %04o): make it so (chmod 700), or name another directory with --cache-dir",
			directory, owner, mode)
	}
	return nil
}

func unusable(directory string, err error) error {
	return fmt.Errorf("tokens cannot be kept in %s: %w: name another directory with --cache-dir, or keep none with --no-cache", directory, err)
}

// close lets others in.
func (l *locked) close() { _ = l.lock.Close() }

// read returns the record, an empty one if there is none that can be used.
func (l *locked) read() record {
	content, err := os.ReadFile(l.path)
	var r record
	if err != nil || json.Unmarshal(content, &r) != nil || r.ID != "" && !tokenID.MatchString(r.ID) {
		return record{}
	}
	return r
}

func (l *locked) write(r record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a token: %w", err)
	}
	if err := atomicfile.Write(l.path, content); err != nil {
		return unusable(filepath.Dir(l.path), err)
	}
	return nil
}

// ours is how files are called that are made here.
var ours = regexp.MustCompile(`^\.?[0-9a-f]{64}\.(lock|json)`)

// sweep removes what nobody has used for long. Without the file of a lock that is held, another
// process logs in as well, at worst.
func (l *locked) sweep() {
	directory := filepath.Dir(l.path)
	entries, _ := os.ReadDir(directory)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && ours.MatchString(entry.Name()) && time.Since(info.ModTime()) > forget {
			_ = os.Remove(filepath.Join(directory, entry.Name()))
		}
	}
}
