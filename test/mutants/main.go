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
	wanted := choice{expression("run", "names of mutants"), expression("in", "files, such as ^internal/server/")}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, wanted); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// choice says which mutants to try.
type choice struct{ names, files *regexp.Regexp }

// expression defines a flag that is a regular expression, of everything by default.
func expression(name, of string) *regexp.Regexp {
	all := regexp.MustCompile("")
	flag.TextVar(all, name, all, "Try only those that match this `expression`, of "+of+".")
	return all
}

// has reports whether to try a mutant of a file, whose path is relative to the module.
func (c choice) has(name, file string) bool {
	return c.names.MatchString(name) && c.files.MatchString(file)
}

// run tries those mutants that are wanted.
func run(ctx context.Context, wanted choice) error {
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
		if !wanted.has(m.name, m.file) {
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
