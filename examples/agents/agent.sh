#!/bin/sh
# The question comes on standard input, the answer goes to standard output.
jq -R '{model: "gpt-4o-mini", messages: [{role: "user", content: .}]}' |
  curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" \
    -H "authorization: Bearer $OPENAI_API_KEY" -H "content-type: application/json" -d @- |
  jq -r '.choices[0].message.content'
