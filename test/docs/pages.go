package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a Markdown file.
type Page struct {
	// Path is relative to the root of the repository, with slashes.
	Path string
	// Lines is the number of lines.
	Lines int
	// Blocks are the fenced blocks, in order.
	Blocks []Block
	// Prose is the text without the fenced blocks, line by line: a line of a block
	// is empty here, so that lines have the numbers that they have in the file.
	Prose string
}

// Block is a fenced block.
type Block struct {
	// Line is the number of the line of the opening fence.
	Line int
	// Language is what stands behind the opening fence.
	Language string
	// Text is what stands between the fences.
	Text string
}

// Command is a command of a block of the language "console", and what it prints.
type Command struct {
	// Line is the number of the first line of the command.
	Line int
	// Text is the command without its prompt. It has more than one line where a
	// quote, a here-document or a backslash goes on.
	Text string
	// Output is what the page says that the command prints.
	Output []string
}

// Console is the language of blocks that show commands, each behind a prompt "$ ", and
// their output.
const Console = "console"

// Read returns all pages below the root of the repository, in the order of their paths.
func Read(root string) ([]Page, error) {
	var pages []Page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// What begins with a dot is git's, CI's or the state of a server.
		if name := entry.Name(); path != root && entry.IsDir() && (strings.HasPrefix(name, ".") || name == "bin") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		page, err := parse(filepath.ToSlash(relative), string(content))
		pages = append(pages, page)
		return err
	})
	return pages, err
}

func parse(path, content string) (Page, error) {
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	page := Page{Path: path, Lines: len(lines)}
	var prose strings.Builder
	var block *Block
	var text []string
	for i, line := range lines {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case isFence && block == nil:
			block, text = &Block{Line: i + 1, Language: fence}, nil
		case isFence:
			block.Text = strings.Join(text, "\n")
			page.Blocks, block = append(page.Blocks, *block), nil
		case block != nil:
			text = append(text, line)
		default:
			prose.WriteString(line)
		}
		prose.WriteByte('\n')
	}
	page.Prose = prose.String()
	if block != nil {
		return page, fmt.Errorf("%s:%d: the block has no end", path, block.Line)
	}
	return page, nil
}

var file = regexp.MustCompile(`^# ([\w.-]+\.yaml)(?:\n|:)`)

// File returns the name of the file that a block in YAML is, empty for none.
func (b Block) File() string {
	name := file.FindStringSubmatch(b.Text)
	if b.Language != "yaml" || name == nil {
		return ""
	}
	return name[1]
}

var fails = regexp.MustCompile(`(?m)^(?:Error|error:|The .* is invalid|tenantry: |no\b)`)

// Fails returns whether the page says that a command fails.
func (c Command) Fails() bool { return fails.MatchString(strings.Join(c.Output, "\n")) }

// Commands returns the commands of a console block.
func (b Block) Commands() []Command {
	var commands []Command
	for i, line := range strings.Split(b.Text, "\n") {
		last := len(commands) - 1
		text, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case last >= 0 && len(commands[last].Output) == 0 && unfinished(commands[last].Text):
			commands[last].Text += "\n" + line
		case prompt:
			commands = append(commands, Command{Line: b.Line + 1 + i, Text: text})
		case last >= 0:
			commands[last].Output = append(commands[last].Output, line)
		}
	}
	return commands
}

var heredoc = regexp.MustCompile(`[^<]<<'?(\w+)`)

// unfinished returns whether a command goes on in the next line.
func unfinished(command string) bool {
	if end := heredoc.FindStringSubmatch(command); end != nil {
		return !strings.HasSuffix(command, "\n"+end[1])
	}
	quote := rune(0)
	for _, r := range command {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	return quote != 0 || strings.HasSuffix(command, `\`)
}

var heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)

// Anchors returns the anchors of the page's headings, as GitHub makes them.
func (p Page) Anchors() map[string]bool {
	anchors := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(p.Prose, -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(match[1]))
		anchor := slug
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", slug, n)
		}
		anchors[anchor] = true
	}
	return anchors
}

var (
	link = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code = regexp.MustCompile("`([^`]+)`")
)

// Links returns the targets of the page's links.
func (p Page) Links() []string {
	return firsts(link, code.ReplaceAllString(p.Prose, "code"))
}

// Code returns what stands in the page's prose between backquotes.
func (p Page) Code() []string {
	return firsts(code, p.Prose)
}

func firsts(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(strings.Fields(match[1]), " "))
	}
	return found
}

// Expand returns the paths that are meant by one with braces, as a shell does.
func Expand(file string) []string {
	before, rest, braced := strings.Cut(file, "{")
	if !braced {
		return []string{file}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var files []string
	for choice := range strings.SplitSeq(choices, ",") {
		files = append(files, Expand(before+choice+after)...)
	}
	return files
}
