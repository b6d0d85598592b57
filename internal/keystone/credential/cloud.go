package credential

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Setting is a setting of a log-in that is no secret, by the name that it has in
// clouds.yaml. OS_AUTH_URL is the variable, and --os-auth-url the flag, of auth_url.
type Setting struct{ Name, Usage string }

// Flag returns the name of the flag for s.
func (s Setting) Flag() string { return "os-" + strings.ReplaceAll(s.Name, "_", "-") }

// Settings can be said by flags, which come before clouds and variables.
var Settings = []Setting{
	{"auth_url", "URL of Keystone, such as https://keystone.example.com/v3."},
	{"auth_type", "How to log in: password, token, applicationcredential, totp or multifactor (a password and a passcode). By default what there is a secret for."},
	{"username", "Name of the user."},
	{"user_id", "ID of the user."},
	{"user_domain_name", "Name of the user's domain."},
	{"user_domain_id", "ID of the user's domain."},
	{"application_credential_id", "ID of an application credential."},
	{"application_credential_name", "Name of an application credential of the user."},
	{"project_name", "Name of the project that the token is for."},
	{"project_id", "ID of the project that the token is for."},
	{"project_domain_name", "Name of the project's domain."},
	{"project_domain_id", "ID of the project's domain."},
	{"domain_name", "Name of the domain that the token is for."},
	{"domain_id", "ID of the domain that the token is for."},
	{"system_scope", `"all" for a token for the system.`},
	{"trust_id", "ID of the trust that the token is for."},
	{"cacert", "File of authorities that sign Keystone's certificate. By default those of the machine."},
}

// known are all settings that are read, beside Settings.
var known = []string{
	"password", "passcode", "token", "application_credential_secret",
	"default_domain_id", "default_domain_name",
	"cert", "key", "verify", "insecure",
}

// aliases are older names.
var aliases = map[string]string{
	"userid": "user_id", "tenant_name": "project_name", "tenant_id": "project_id",
	"auth_token": "token", "default_domain": "default_domain_id",
}

// twins are two ways to name one thing. IDs are believed.
var twins = [][2]string{
	{"user_id", "username"}, {"user_domain_id", "user_domain_name"},
	{"project_id", "project_name"}, {"project_domain_id", "project_domain_name"},
	{"domain_id", "domain_name"}, {"default_domain_id", "default_domain_name"},
	{"application_credential_id", "application_credential_name"},
}

// scopes are the settings that say what a token is for. All of one element are about one
// scope, of which a token has one.
var scopes = [][]string{{"trust_id"}, {"system_scope"}, {"project_id", "project_name"}, {"domain_id", "domain_name"}}

// cloud is where somebody logs in, how, and for what.
type cloud struct {
	// origin says in errors where the settings are from.
	origin   string
	settings map[string]string
	// field returns how a setting is called there.
	field func(name string) string
	// flags are the settings that flags say.
	flags map[string]string
}

// name returns how a setting is called where it comes from, or would.
func (c cloud) name(setting string) string {
	if _, ok := c.flags[setting]; ok {
		return "--" + Setting{Name: setting}.Flag()
	}
	return c.field(setting)
}

func (c cloud) get(setting string) string { return c.settings[setting] }

// errorf returns an error that says where the settings are from.
func (c cloud) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", c.origin, fmt.Errorf(format, args...))
}

// resolve returns the cloud that was asked for. One that is named, and the only one in
// clouds.yaml if there are no variables, is read from the file alone: the variables may be
// those of another, which must not see its password.
func (o *Options) resolve() (cloud, error) {
	name, file := cmp.Or(o.Cloud, os.Getenv("OS_CLOUD")), cmp.Or(o.ConfigFile, os.Getenv("OS_CLIENT_CONFIG_FILE"))
	var c cloud
	if name == "" && o.ConfigFile == "" && cmp.Or(o.Settings["auth_url"], os.Getenv("OS_AUTH_URL")) != "" {
		c = fromVariables()
	} else {
		var err error
		if c, err = fromFile(name, file); err != nil {
			return cloud{}, err
		}
	}
	c.complete()
	c.override(o.Settings)
	c.complete()
	return c, nil
}

func fromVariables() cloud {
	c := cloud{origin: "the variables OS_*", settings: map[string]string{}, field: variableOf}
	all := slices.AppendSeq(slices.Clone(known), maps.Keys(aliases))
	for _, s := range Settings {
		all = append(all, s.Name)
	}
	for _, name := range all {
		if value := os.Getenv(variableOf(name)); value != "" {
			c.settings[name] = value
		}
	}
	return c
}

// override lets flags replace settings, and with them all that say the same otherwise.
func (c *cloud) override(flags map[string]string) {
	c.flags = flags
	drop := func(names ...string) {
		for _, name := range names {
			delete(c.settings, name)
		}
	}
	has := func(name string) bool { return flags[name] != "" }
	for _, pair := range twins {
		if slices.ContainsFunc(pair[:], has) {
			drop(pair[:]...)
		}
	}
	if slices.ContainsFunc(slices.Concat(scopes...), has) {
		drop(slices.Concat(scopes...)...)
	}
	maps.Copy(c.settings, flags)
}

// complete settles what can be said in several ways, as OpenStack's clients do.
func (c *cloud) complete() {
	s := c.settings
	maps.DeleteFunc(s, func(_, value string) bool { return value == "" })
	for old, name := range aliases {
		if s[name] == "" && s[old] != "" {
			s[name] = s[old]
		}
		delete(s, old)
	}
	for _, pair := range twins {
		if s[pair[0]] != "" {
			delete(s, pair[1])
		}
	}
	domain := func(of, from string) {
		for _, kind := range []string{"_id", "_name"} {
			if s[of+"_id"] == "" && s[of+"_name"] == "" && s[from+kind] != "" {
				s[of+kind] = s[from+kind]
			}
		}
	}
	for _, from := range []string{"domain", "default_domain"} {
		domain("user_domain", from)
		domain("project_domain", from)
	}
	if s["project_id"] != "" || s["project_name"] != "" {
		delete(s, "domain_id") // they were for the user and the project
		delete(s, "domain_name")
	}
}

// scalar is a value of YAML as it is written: a password 0123 is no number.
type scalar string

// UnmarshalYAML implements yaml.Unmarshaler. What is no scalar is nothing that is read here.
func (s *scalar) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" {
		*s = scalar(node.Value)
	}
	return nil
}

// entry is a cloud in a file.
type entry struct {
	Auth map[string]scalar `yaml:"auth"`
	Rest map[string]scalar `yaml:",inline"`
}

type file struct {
	Clouds map[string]entry `yaml:"clouds"`
	Public map[string]entry `yaml:"public-clouds"`
}

// fromFile reads a cloud. An empty name stands for the only one, an empty path for the places
// where OpenStack's clients look.
func fromFile(name, path string) (cloud, error) {
	path, content, err := find(path, "clouds")
	if err != nil {
		return cloud{}, err
	}
	if path == "" {
		return cloud{}, fmt.Errorf("no cloud is named, and there is no clouds.yaml in %s: write one, name it with --os-client-config-file, or set OS_AUTH_URL and the other variables of an openrc file",
			strings.Join(directories(), ", "))
	}
	clouds, err := parse(path, content)
	if err != nil {
		return cloud{}, err
	}
	names := slices.Sorted(maps.Keys(clouds.Clouds))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	found, ok := clouds.Clouds[name]
	switch {
	case len(names) == 0:
		return cloud{}, fmt.Errorf("%s has no clouds: it needs a section \"clouds\"", path)
	case name == "":
		return cloud{}, fmt.Errorf("%s has the clouds %q: name one with --os-cloud or OS_CLOUD", path, names)
	case !ok:
		return cloud{}, fmt.Errorf("cloud %q is not in %s, which has %q: name one of them with --os-cloud or OS_CLOUD", name, path, names)
	}
	secure, err := besides(path)
	if err != nil {
		return cloud{}, err
	}
	layers := []entry{found, secure.Clouds[name]}
	if profile := cmp.Or(found.Rest["profile"], found.Rest["cloud"]); profile != "" {
		public, err := profiles()
		if err != nil {
			return cloud{}, err
		}
		layers = slices.Insert(layers, 0, public.Public[string(profile)])
	}
	return cloud{
		origin:   fmt.Sprintf("cloud %q of %s", name, path),
		settings: merge(layers...),
		field:    fieldOf,
	}, nil
}

// merge returns the settings of entries. Later ones replace earlier ones.
func merge(entries ...entry) map[string]string {
	settings := map[string]string{}
	for _, e := range entries {
		for _, section := range []map[string]scalar{e.Rest, e.Auth} {
			for name, value := range section {
				if value != "" {
					settings[name] = string(value)
				}
			}
		}
	}
	return settings
}

// besides reads the file with the secrets of the clouds in the file at path.
func besides(path string) (file, error) {
	if named := os.Getenv("OS_CLIENT_SECURE_FILE"); named != "" {
		content, err := os.ReadFile(named)
		if err != nil {
			return file{}, fmt.Errorf("reading the file of secrets, which OS_CLIENT_SECURE_FILE names: %w", err)
		}
		return parse(named, content)
	}
	path, content, err := first(inDirectory(filepath.Dir(path), "secure"))
	if err != nil || path == "" {
		return file{}, err
	}
	return parse(path, content)
}

// profiles reads the file of public clouds, that others refer to.
func profiles() (file, error) {
	path, content, err := find("", "clouds-public")
	if err != nil || path == "" {
		return file{}, err
	}
	return parse(path, content)
}

// find returns the file at a path that somebody named, or else the first of that name where
// OpenStack's clients look. An empty path says that there is none.
func find(named, base string) (string, []byte, error) {
	if named != "" {
		content, err := os.ReadFile(named)
		if err != nil {
			return "", nil, fmt.Errorf("reading the file of clouds, which --os-client-config-file or OS_CLIENT_CONFIG_FILE names: %w", err)
		}
		return named, content, nil
	}
	var candidates []string
	for _, directory := range directories() {
		candidates = append(candidates, inDirectory(directory, base)...)
	}
	return first(candidates)
}

// first reads the first file that there is.
func first(paths []string) (string, []byte, error) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		switch {
		case err == nil:
			return path, content, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", nil, fmt.Errorf("reading clouds: %w", err)
		}
	}
	return "", nil, nil
}

// directories are where OpenStack's clients look for files.
func directories() []string {
	var result []string
	if here, err := os.Getwd(); err == nil {
		result = append(result, here)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if home, err := os.UserHomeDir(); config == "" && err == nil {
		config = filepath.Join(home, ".config")
	}
	if config != "" {
		result = append(result, filepath.Join(config, "openstack"))
	}
	return append(result, "/etc/openstack")
}

func inDirectory(directory, base string) []string {
	return []string{
		filepath.Join(directory, base+".yaml"),
		filepath.Join(directory, base+".yml"),
		filepath.Join(directory, base+".json"),
	}
}

var line = regexp.MustCompile(`line \d+`)

// parse parses a file of clouds. Errors of YAML have parts of the file, which may be those of
// a password: only the line is told.
func parse(path string, content []byte) (file, error) {
	var result file
	if err := yaml.Unmarshal(content, &result); err != nil {
		return file{}, fmt.Errorf("%s is not a file of clouds in YAML (%s)", path, cmp.Or(line.FindString(err.Error()), "somewhere"))
	}
	return result, nil
}

func variableOf(setting string) string { return "OS_" + strings.ToUpper(setting) }

// fieldOf returns the path of a setting in a cloud of a file.
func fieldOf(setting string) string {
	switch setting {
	case "auth_type", "cacert", "cert", "key", "verify", "insecure":
		return setting
	default:
		return "auth." + setting
	}
}
