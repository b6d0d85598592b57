package configuration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/apis/apiserver"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/serverconfig"
	"github.com/tenantry/tenantry/internal/yamltext"
)

// Dir is where the files of servers and managers are, each section in a directory of its name.
const Dir = "/etc/tenantry/configuration"

// Section is one part of the configuration: a file, and those beside it that it may name.
type Section string

const (
	Authentication Section = "authentication"
	Authorization  Section = "authorization"
	Audit          Section = "audit"
	AuditWebhook   Section = "audit-webhook"
	Admission      Section = "admission"
	Manager        Section = "manager"
	TenantLimits   Section = "tenant-limits"
)

// File is the name of the section's file, which is its key in ConfigMaps and Secrets as well.
func (s Section) File() string {
	if s == AuditWebhook {
		return "kubeconfig"
	}
	return string(s) + ".yaml"
}

// Path is where the section's file is.
func (s Section) Path() string { return path.Join(Dir, string(s), s.File()) }

// Files are those of one section, by their names.
type Files map[string][]byte

// checking is held while a file is checked: what several of different people take together is not bounded.
var checking sync.Mutex

// Check returns what is wrong with the files of a section, if it can be known without a server.
func Check(s Section, files Files) error {
	checking.Lock()
	defer checking.Unlock()
	content := files[s.File()]
	if len(content) == 0 {
		return fmt.Errorf("%s is missing or empty", s.File())
	}
	err := yamltext.Check(content)
	if err == nil {
		err = checks[s](content, sectionFiles{s, files})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.File(), err)
	}
	return nil
}

var checks = map[Section]func(content []byte, beside sectionFiles) error{
	Authentication: checkAuthentication,
	Authorization:  checkAuthorization,
	Audit:          checkAudit,
	AuditWebhook:   checkKubeconfig,
	Admission:      checkAdmission,
	Manager:        checkManager,
	TenantLimits:   checkTenantLimits,
}

// Digest is of what processes read of sections when they start, and never again. files have
// passed Check.
func Digest(sections map[Section]Files) (string, error) {
	sum := sha256.New()
	for _, s := range slices.Sorted(maps.Keys(sections)) {
		pinned, err := atStart(s, sections[s])
		if err != nil {
			return "", err
		}
		for _, name := range slices.Sorted(maps.Keys(pinned)) {
			fmt.Fprintf(sum, "%s/%s %d\n%s", s, name, len(pinned[name]), pinned[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// atStart returns what a server reads of a section when it starts alone. Of the two files that
// it reads again, a part cannot be changed in a server that runs.
func atStart(s Section, files Files) (Files, error) {
	var fixed any
	switch s {
	case Authentication:
		c, err := serverconfig.Decode[*apiserver.AuthenticationConfiguration](files[s.File()])
		if err != nil {
			return nil, err
		}
		fixed = c.Anonymous
	case Authorization:
		c, err := serverconfig.Decode[*apiserver.AuthorizationConfiguration](files[s.File()])
		if err != nil {
			return nil, err
		}
		fixed = builtin(c)
	default:
		return files, nil
	}
	pinned := maps.Clone(files)
	var err error
	pinned[s.File()], err = json.Marshal(fixed)
	return pinned, err
}

func checkAudit(content []byte, _ sectionFiles) error { return serverconfig.CheckAuditPolicy(content) }

func checkManager(content []byte, _ sectionFiles) error {
	_, err := configv1alpha1.ParseManagerConfiguration(content)
	return err
}

func checkTenantLimits(content []byte, _ sectionFiles) error {
	_, err := configv1alpha1.ParseTenantLimits(content)
	return err
}
