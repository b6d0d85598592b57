// Command pause is the first process of a pod: it keeps the pod's namespaces open, and reaps
// the orphans that land in them. Tests run it as a container, too: it prints its arguments first and, if the first
// one is -say, ends then. With -serve ADDRESS it tells the rest of them to who connects, and with -ask ADDRESS it
// prints what it is told there, which it tries again and again within a time if that comes next. With -lookup KIND NAME
// it prints what DNS says: host, srv, addr, or txt. With -write FILE it writes the rest of them into a file, and with
// -read FILE it prints one. With -lock FILE it has a file locked until it is killed, and says in FILE.taken if somebody
// else has it. With -work it uses what it gets of a processor. With -hear it prints what it is told, and with
// -install FILE it copies itself there: as tar it does what kubectl cp asks for. With -after TIME it waits first.
package main

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) > 1 && args[0] == "-after" {
		wait, err := time.ParseDuration(args[1])
		must(err)
		time.Sleep(wait)
		args = args[2:]
	}
	if filepath.Base(os.Args[0]) == "tar" {
		archive(args)
		return
	} else if len(args) > 0 && args[0] == "-hear" {
		hear()
		return
	} else if len(args) > 1 && args[0] == "-install" {
		install(args[1])
	} else if len(args) > 1 && args[0] == "-ask" {
		ask(args[1], args[2:]...)
		return
	} else if len(args) > 1 && args[0] == "-lock" {
		lock(args[1])
	} else if len(args) > 2 && args[0] == "-lookup" {
		lookup(args[1], args[2])
		return
	} else if len(args) > 1 && (args[0] == "-write" || args[0] == "-read") {
		store(args[0] == "-write", args[1], strings.Join(args[2:], " "))
		return
	} else if len(args) > 0 && args[0] == "-work" {
		go work()
	} else if len(args) > 1 && args[0] == "-serve" {
		go serve(args[1], strings.Join(args[2:], " "))
	} else if len(args) > 0 {
		said := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-say" })
		fmt.Println(strings.Join(said, " "))
		if args[0] == "-say" {
			return
		}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-orphans:
			for reaped := 1; reaped > 0; {
				reaped, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// work uses a processor.
func work() {
	for {
		_ = sha256.Sum256(make([]byte, 1<<10))
	}
}

// serve tells a text to everybody who connects.
func serve(address, text string) {
	listener, err := net.Listen("tcp", address)
	for err == nil {
		var conn net.Conn
		if conn, err = listener.Accept(); err == nil {
			_, _ = io.WriteString(conn, text+"\n")
			_ = conn.Close()
		}
	}
	must(err)
}

// ask prints what is told at an address. If there is a time, it tries again within that.
func ask(address string, within ...string) {
	timeout, end := 5*time.Second, time.Now()
	if len(within) > 0 {
		patience, err := time.ParseDuration(within[0])
		must(err)
		timeout, end = 200*time.Millisecond, end.Add(patience)
	}
	conn, err := net.DialTimeout("tcp", address, timeout)
	for err != nil && time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond)
		conn, err = net.DialTimeout("tcp", address, timeout)
	}
	must(err)
	_, err = io.Copy(os.Stdout, conn)
	must(err)
}

// lookup prints what DNS says of a name or address, sorted.
func lookup(kind, name string) {
	var said []string
	var err error
	switch kind {
	case "host":
		said, err = net.LookupHost(name)
	case "addr":
		said, err = net.LookupAddr(name)
	case "txt":
		said, err = net.LookupTXT(name)
	case "srv":
		var records []*net.SRV
		_, records, err = net.LookupSRV("", "", name)
		for _, record := range records {
			said = append(said, fmt.Sprintf("%s:%d", record.Target, record.Port))
		}
	}
	must(err)
	slices.Sort(said)
	fmt.Println(strings.Join(said, " "))
}

// store writes a text into a file, or prints one.
func store(write bool, file, text string) {
	content := []byte(text)
	var err error
	if write {
		err = os.WriteFile(file, content, 0o600)
	} else {
		content, err = os.ReadFile(file)
	}
	must(err)
	fmt.Println(string(content))
}

// lock locks a file, and does not end when it is told to.
func lock(name string) {
	file, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR, 0o600)
	must(err)
	signal.Ignore(syscall.SIGTERM)
	if err := syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		must(errors.Join(err, os.WriteFile(name+".taken", []byte(err.Error()), 0o600)))
	}
	for {
		time.Sleep(time.Hour)
	}
}

// hear prints the lines that it is told, until one is "bye".
func hear() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "bye" {
		fmt.Println("heard " + lines.Text())
	}
	must(lines.Err())
}

// install copies the program.
func install(file string) {
	content, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(file, content, 0o700)
	}
	must(err)
}

// archive is tar of single files: cf - FILE, or -xmf - -C DIRECTORY.
func archive(args []string) {
	last := args[len(args)-1]
	if strings.Contains(args[0], "c") {
		content, err := os.ReadFile(last)
		must(err)
		w := tar.NewWriter(os.Stdout)
		must(w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(last, "/"), Mode: 0o600, Size: int64(len(content))}))
		_, err = w.Write(content)
		must(err)
		must(w.Close())
		return
	}
	for r := tar.NewReader(os.Stdin); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(err)
		content, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(last, filepath.Base(header.Name)), content, 0o600)
		}
		must(err)
	}
}

// must ends the program if there is an error.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
