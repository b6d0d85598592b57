package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	pattern := flag.String("run", "", "regular expression of the names of mutants to try; all by default")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, wanted); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries all mutants whose names match.
func run(ctx context.Context, wanted *regexp.Regexp) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, p := range packages {
		tried, err := p.try(ctx, root, wanted)
		if err != nil {
			return fmt.Errorf("trying the mutants of %s: %w", p.dir, err)
		}
		outcomes = append(outcomes, tried...)
	}
	for _, m := range table {
		if !wanted.MatchString(m.name) {
			continue
		}
		o := m.try(ctx, root)
		fmt.Println(o)
		outcomes = append(outcomes, o)
	}
	return summary(outcomes)
}

// outcome is what came of a mutant.
type outcome struct {
	name string
	// problem says why it does not count as noticed, empty if a test has failed.
	problem string
}

func (o outcome) String() string {
	if o.problem == "" {
		return "noticed   " + o.name
	}
	return "PROBLEM   " + o.name + ": " + o.problem
}

// summary returns an error that names what was not noticed.
func summary(outcomes []outcome) error {
	var problems []string
	for _, o := range outcomes {
		if o.problem != "" {
			problems = append(problems, o.String())
		}
	}
	fmt.Printf("%d mutants, %d noticed\n", len(outcomes), len(outcomes)-len(problems))
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
