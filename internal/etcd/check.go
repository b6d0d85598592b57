package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// checkData finds damage for which etcd would panic in a goroutine of its own, where the
// panic cannot be recovered. It reads every page of the database once, without the values;
// etcd reads them again when it starts.
func checkData(dir string) (err error) {
	database := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(database); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading %s: %v", database, r)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad page number leads out of the file
	db, err := bbolt.Open(database, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("opening %s: %w", database, err)
	}
	defer db.Close()
	objects := 0
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			n := countKeys(bucket)
			if string(name) == "key" {
				objects = n
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", database, err)
	}
	// Without a log etcd would start anew and never answer. An empty database without
	// a log is what remains of a first start that was killed early.
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err == nil && len(logs) == 0 && objects > 0 {
		return fmt.Errorf("%s has no write-ahead log", filepath.Join(dir, "member"))
	}
	return err
}

func countKeys(bucket *bbolt.Bucket) int {
	n := 0
	cursor := bucket.Cursor()
	for key, _ := cursor.First(); key != nil; key, _ = cursor.Next() {
		n++
	}
	return n
}
