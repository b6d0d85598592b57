package configuration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
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
		c, err := decode[*apiserver.AuthenticationConfiguration](files[s.File()])
		if err != nil {
			return nil, err
		}
		fixed = c.Anonymous
	case Authorization:
		c, err := decode[*apiserver.AuthorizationConfiguration](files[s.File()])
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

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// decode reads one of upstream's configurations. An unknown field is an error.
func decode[T runtime.Object](content []byte) (T, error) {
	var none T
	object, err := runtime.Decode(codecs.UniversalDecoder(), content)
	if err != nil {
		return none, err
	}
	typed, is := object.(T)
	if !is {
		return none, fmt.Errorf("its kind is %s, and must be %s", nameOf(object), nameOf(none))
	}
	return typed, nil
}

// nameOf is the kind of a configuration.
func nameOf(of any) string { return strings.TrimPrefix(fmt.Sprintf("%T", of), "*apiserver.") }

func checkAudit(content []byte, _ sectionFiles) error {
	// Upstream takes unknown fields and logs that it has, so that a misspelt rule is one for
	// everything.
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, err := runtime.Decode(strict, content); err != nil {
		return err
	}
	_, err := auditpolicy.LoadPolicyFromBytes(content)
	return err
}

func checkManager(content []byte, _ sectionFiles) error {
	_, err := configv1alpha1.ParseManagerConfiguration(content)
	return err
}

func checkTenantLimits(content []byte, _ sectionFiles) error {
	_, err := configv1alpha1.ParseTenantLimits(content)
	return err
}
