"""Phrases by which agents and tools say what happened: refusals, claims of success, kinds of errors. English only: in
logs of other languages these detectors stay silent."""

from __future__ import annotations

import re

MOST_READ = 4000
"""Phrases are looked for in the first characters of what was said: behind them stand pages that agents quote."""

GAVE_UP = re.compile(
    r"""\bI(?:['’]m|\s+am)\s+(?:\w+\s+){0,2}(?:unable|not\s+able)\b
      | \bI\s+(?:can\s?not|can['’]?t|could\s+not|couldn['’]t|was\s+unable|was\s+not\s+able)\b
      | \b(?:it\s+is|it['’]s|was)\s+not\s+possible\s+(?:for\s+me\s+)?to\b
      | \bunable\s+to\s+(?:complete|determine|find|access|proceed|process|retrieve|provide|answer|locate|verify|fulfil)
      | \b(?:could|can)\s?not\s+(?:be\s+)?(?:determine|found|find|access|complete|verif|retriev)
      | \bbeyond\s+(?:my|the)\s+(?:scope|capabilit)
      | \bI\s+(?:have\s+to|must|will\s+have\s+to)\s+(?:stop|give\s+up|end\s+here)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""An agent says that it cannot."""

REFUSAL = re.compile(
    r"""\bI(?:['’]m|\s+am)\s+sorry,?\s+but\s+I\s+(?:can\s?not|can['’]?t|won['’]?t)
      | \bI\s+(?:can\s?not|can['’]?t|won['’]?t|will\s+not)\s+(?:help|assist|comply|do\s+that|provide|share|engage)
      | \b(?:against|violates?)\s+(?:my|our|the)\s+(?:polic|guideline|rule)""",
    re.IGNORECASE | re.VERBOSE,
)
"""An agent says that it will not."""

CLAIMS_SUCCESS = re.compile(
    r"""\b(?:successfully|(?:has|have)\s+been\s+(?:\w+ly\s+)?\w+(?:ed|en|lt|nt|de)\b|all\s+set|is\s+now\s+\w+(?:ed|en)\b
      | (?:task|request|work)\s+is\s+(?:now\s+)?(?:complete|done|finished)|everything\s+(?:works|passes)
      | I(?:['’]ve|\s+have)\s+(?:\w+ly\s+)?(?:fixed|completed|finished|booked|cancel\w+|updated|created|sent
        | verified))""",
    re.IGNORECASE | re.VERBOSE,
)
"""An agent says that it is done."""

SCHEMA_ERROR = re.compile(
    r"""missing\s+(?:\d+\s+)?(?:a\s+)?(?:required|positional|keyword|argument|parameter|field|propert)
      | (?:field|argument|parameter|propert\w+)\s+(?:is\s+|are\s+)?(?:required|missing)
      | unexpected\s+(?:keyword\s+)?(?:argument|parameter|field|propert)
      | (?:invalid|unknown|bad|malformed|unsupported|unrecognized)\s+(?:\w+\s+)?(?:arg|param|json|input|schema|field
        | format|type|enum|option)
      | validation\s*error|schema|jsondecode|is\s+not\s+of\s+type|is\s+not\s+(?:a\s+)?valid
      | input\s+should\s+be|should\s+be\s+a\s+valid|extra\s+inputs|expected\s+(?:a\s+|an\s+)?(?:str|int
        | number|float|bool|list|dict|object|array)
      | could\s+not\s+(?:parse|decode)|cannot\s+(?:parse|decode)|failed\s+to\s+parse""",
    re.IGNORECASE | re.VERBOSE,
)
"""A tool says that its arguments do not have the right form."""

FORM_ERROR = re.compile(
    r"""(?:code|action|tool\s*call|output|response|json)\s+(?:parsing|parse)\s*(?:failed|error)|error\s+in\s+code\s+parsing
      | (?:syntax|indentation|name|type|attribute|unboundlocal|import|modulenotfound|interpreter)error
      | invalid\s+syntax|unterminated\s+string|jsondecodeerror
      | pattern\s.{0,80}\bnot\s+found\s+in|could\s+not\s+parse|failed\s+to\s+parse|make\s+sure\s+to\s+include\s+code""",
    re.IGNORECASE | re.VERBOSE,
)
"""What an agent wrote to act cannot run as it is written."""

NO_SUCH_FILE = re.compile(
    r"""no\s+such\s+file(?:\s+or\s+directory)?:?\s*['"`]?(?P<name>[^\s'"`,)]+)
      | (?:file|path|directory)\s+['"`]?(?P<other>[\w./~-]*[./][\w./~-]*)['"`]?\s+
        (?:was\s+)?(?:does\s+not\s+exist|not\s+found)""",
    re.IGNORECASE | re.VERBOSE,
)
"""A file that was named is not there."""

NOTHING_FOUND = re.compile(
    r"\bnot\s+found\b|\bno\s+(?:results?|match(?:es)?|files?|such|items?|entries)\b|\bfound\s+0\b|\b0\s+(?:results|matches|files)\b"
    r"|\bnothing\s+(?:was\s+)?found\b|\bcould\s*n[o']t\s+(?:be\s+)?f(?:i|ou)nd\b|^\s*(?:\[\]|\{\}|none)?\s*$",
    re.IGNORECASE,
)
"""A search brought nothing."""

CONTEXT_FULL = re.compile(
    r"context.?(?:length|window)\s*(?:_?exceeded|limit)|maximum\s+context|prompt\s+is\s+too\s+long|too\s+many\s+tokens"
    r"|max(?:imum)?\s+(?:steps|iterations|turns)\s+(?:reached|exceeded)|^refused by the budget: ",
    re.IGNORECASE,
)
"""A model call failed because the conversation is longer than the model allows, an agent has no steps left, or a cap
did not let it out."""

VALUE_ERROR = re.compile(
    r"""not\s+found|no\s+such|does\s+not\s+(?:exist|match|add\s+up|belong)|doesn['’]t\s+(?:exist|match)|not\s+exist
      | invalid|illegal|out\s+of\s+range|not\s+(?:available|allowed|enough|eligible|permitted|supported|a\s+valid)
      | must\s+(?:be|have|match|not)|cannot\s+be|already\s+\w+ed|insufficient|too\s+(?:many|few|large|small|long|short)
      | unknown|wrong|incorrect|mismatch|exceeds|conflict""",
    re.IGNORECASE | re.VERBOSE,
)
"""A tool says that a value is wrong although its form is right."""

NO_SUCH_TOOL = re.compile(
    r"""(?:unknown|invalid|no\s+such|non-?existent|undefined|unrecognized|unavailable)\s+(?:tool|function|action)\b
      | (?:tool|function|action)\s+(?:['"`]?[\w.-]+['"`]?\s+)?(?:is\s+|was\s+|does\s+)?(?:unknown
        | not\s+(?:found|exist|defined|available|registered|a\s+valid|recognized|one\s+of))""",
    re.IGNORECASE | re.VERBOSE,
)
"""There is no tool of the name that was called."""

INFRASTRUCTURE = re.compile(
    r"""rate.?limit|too\s+many\s+requests|(?:code|status|http|error)\W{0,3}(?:429|50[0234]|529)\b|quota\s+exceeded|overloaded
      | (?:connection|network)\s*(?:error|reset|refused|aborted|closed|timed\s+out)|connectionerror|remoteprotocol
      | (?:read|connect|request|gateway)\s*time(?:d\s+)?.?out|name\s+resolution|temporary\s+failure|dns
      | internal\s*server\s*error|service\s*unavailable|bad\s+gateway|ssl.{0,20}error|no\s+space\s+left
      | insufficient_quota|invalid\s+api\s+key|authenticationerror|unauthorized""",
    re.IGNORECASE | re.VERBOSE,
)
"""The provider, the network or the machine failed, not the agent."""

BUDGET = re.compile(
    r"""max(?:imum)?[_\s-]*(?:number\s+of\s+)?(?:steps?|turns?|iterations?|messages?|tokens?|rounds?|calls?|context
        | cost|attempts?)
      | (?:step|turn|token|time|cost|context|message|budget|iteration|call)s?[_\s-]*(?:limit|exceeded|exhausted|cap\b)
      | exit_(?:cost|context|command_timeout|total_execution_time)|limits?exceeded|length_limit
      | out\s+of\s+(?:budget|tokens|time)
      | \bcap\.|context[_\s]length|\bworking\b|token_limit""",
    re.IGNORECASE | re.VERBOSE,
)
"""A run ended at a limit."""

REFUSAL_STOPS = frozenset({"refusal", "content_filter", "safety", "SAFETY"})

CONTROL = re.compile(
    r"""\W*(?:terminate|stop|done|ok(?:ay)?|yes|continue|next\s+speaker\W.*|finish(?:ed)?|exit|\#+\w+\#+)\W*""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words by which agents steer a conversation without doing anything."""

MADE_UP = re.compile(
    r"""\b(?:simulat(?:ed?|ing)\s+(?:\w+\s+)?(?:data|result|output|response|content|search|transaction|table)
      | hypothetical|fictional|fabricat|made.?up|dummy|mock(?:ed)?\s+(?:data|up|response|result)
      | (?:sample|example|placeholder)\s+(?:data|dataset|value|content|output|result|text|transcript)
      | for\s+(?:demonstration|illustration|illustrative)
      | assum(?:e|ed|ing)\s+(?:the\s+)?(?:following|values?|data|results?))""",
    re.IGNORECASE | re.VERBOSE,
)
"""An agent says that it uses data that nobody gave it."""

ERROR_OUTPUT = re.compile(r"Traceback \(most recent call last\)|^(?:\w*Error|Exception|fatal|error)\b\W", re.MULTILINE)
"""Output of a program that shows an error, whatever its exit code."""

ENDS_TALK = re.compile(r"\bTERMINATE\b")
"""An agent ends the conversation of a group."""

FINAL_ANSWER = re.compile(r"FINAL ANSWER:\s*(.+)")
"""The mark of the answer that many agents are told to use."""
