package configuration

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"github.com/tenantry/tenantry/internal/serverconfig"
)

// serviceAccountIssuer is that of tokens that servers issue, which no other issuer may be.
const serviceAccountIssuer = "https://kubernetes.default.svc"

func checkAuthentication(content []byte, _ sectionFiles) error {
	c, err := serverconfig.Decode[*apiserver.AuthenticationConfiguration](content)
	if err != nil {
		return err
	}
	if err := checkExpressions(expressionsOf(c)); err != nil {
		return err
	}
	errs := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c, []string{serviceAccountIssuer})
	return append(errs, checkAnonymous(c.Anonymous)...).ToAggregate()
}

// checkAnonymous refuses what keeps the host from asking whether a server is ready.
func checkAnonymous(anonymous *apiserver.AnonymousAuthConfig) field.ErrorList {
	if anonymous == nil {
		return nil
	}
	at := field.NewPath("anonymous")
	if !anonymous.Enabled {
		return field.ErrorList{field.Forbidden(at.Child("enabled"),
			"the host asks without credentials whether a server is ready: enable it, with conditions for the paths /livez and /readyz alone")}
	}
	for _, probed := range []string{"/livez", "/readyz"} {
		is := func(c apiserver.AnonymousAuthCondition) bool { return c.Path == probed }
		if len(anonymous.Conditions) > 0 && !slices.ContainsFunc(anonymous.Conditions, is) {
			return field.ErrorList{field.Forbidden(at.Child("conditions"), "the host asks without credentials whether a server is ready: add the path "+probed)}
		}
	}
	return nil
}

const (
	modeNode = "Node"
	modeRBAC = "RBAC"
)

func checkAuthorization(content []byte, beside sectionFiles) error {
	c, err := serverconfig.Decode[*apiserver.AuthorizationConfiguration](content)
	if err != nil {
		return err
	}
	if err := checkExpressions(conditionsOf(c)); err != nil {
		return err
	}
	var errs field.ErrorList
	checked := c.DeepCopy()
	for i := range checked.Authorizers {
		webhook := checked.Authorizers[i].Webhook
		if webhook == nil {
			continue
		}
		errs = append(errs, checkConnection(&webhook.ConnectionInfo, beside, field.NewPath("authorizers").Index(i).Child("webhook", "connectionInfo"))...)
		// Upstream looks for the file, which is where servers are.
		webhook.ConnectionInfo = apiserver.WebhookConnectionInfo{Type: apiserver.AuthorizationWebhookConnectionInfoTypeInCluster}
	}
	errs = append(errs, validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, checked,
		sets.New(modeNode, modeRBAC, string(apiserver.TypeWebhook)), sets.New(string(apiserver.TypeWebhook)))...)
	return errs.ToAggregate()
}

// checkConnection checks how servers reach a webhook.
func checkConnection(c *apiserver.WebhookConnectionInfo, beside sectionFiles, at *field.Path) field.ErrorList {
	if c.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile || c.KubeConfigFile == nil {
		return field.ErrorList{field.NotSupported(at.Child("type"), c.Type, []string{apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile})}
	}
	content, err := beside.absolute(*c.KubeConfigFile)
	if err == nil {
		err = checkKubeconfig(content, beside)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at.Child("kubeConfigFile"), *c.KubeConfigFile, err.Error())}
	}
	return nil
}

// builtin are the authorizers of a configuration that a server keeps for as long as it runs.
func builtin(c *apiserver.AuthorizationConfiguration) []string {
	var types []string
	for _, a := range c.Authorizers {
		if a.Type != apiserver.TypeWebhook {
			types = append(types, fmt.Sprint(a.Type))
		}
	}
	slices.Sort(types)
	return types
}
